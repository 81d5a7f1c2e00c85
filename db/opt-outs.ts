/** What recipients wish: those who refuse are on the blacklist of one application, and leave it again (A3). */
import { type Session, statement } from "./client.ts";

export interface Wish {
  number: string;
  applicationId: string;
  wish: "opt_out" | "opt_in";
}

/**
 * In the order in which they were said; the last one of a recipient counts. Saying it twice changes
 * nothing, and asking again takes back only what the recipient itself said, never the platform's entry.
 */
export async function keepWishes(tx: Session, wishes: readonly Wish[]): Promise<void> {
  const { vault } = tx;
  const last = new Map(
    wishes
      // Only handsets are ever sent to: whatever else writes has nothing to refuse.
      .filter(({ number }) => /^1\d{10}$/.test(number))
      .map((it) => [`${it.applicationId}/${it.number}`, { ...it, hash: vault.hash(it.number) }]),
  );
  const of = (wish: Wish["wish"]) => [...last.values()].filter((it) => it.wish === wish);
  const [refusing, asking] = [of("opt_out"), of("opt_in")];
  if (refusing.length > 0) {
    await tx.run(OPT_OUT, [
      refusing.map((it) => it.hash),
      refusing.map((it) => vault.seal("blacklist.number", it.hash, it.number)),
      refusing.map((it) => it.applicationId),
    ]);
  }
  if (asking.length > 0) {
    await tx.run(OPT_IN, [asking.map((it) => it.hash), asking.map((it) => it.applicationId)]);
  }
}

const OPT_OUT = statement<Record<string, never>>(
  "opt_outs.add",
  `INSERT INTO blacklist (number_hash, number_sealed, application_id, source)
   SELECT number_hash, number_sealed, application_id, 'opt_out'
     FROM unnest($1::text[], $2::bytea[], $3::text[]) AS t(number_hash, number_sealed, application_id)
    ORDER BY number_hash, application_id
   ON CONFLICT DO NOTHING`,
);

const OPT_IN = statement<Record<string, never>>(
  "opt_outs.remove",
  `DELETE FROM blacklist b USING unnest($1::text[], $2::text[]) AS t(number_hash, application_id)
    WHERE b.number_hash = t.number_hash AND b.application_id = t.application_id AND b.source = 'opt_out'`,
);
