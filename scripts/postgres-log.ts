/**
 * What PostgreSQL's log must not tell of when the tests are over: two that waited for each other, and a
 * unique key that somebody ran into instead of asking (D13, L).
 */

/** As `log_line_prefix` of scripts/services.mjs writes it: time, process, application, SQLSTATE. */
const TROUBLE = /^\S+ \S+ \S+ \[\d+\] (\S*) (40P01|23505) ERROR: /;

/** Under this application name tests run into a key on purpose. */
const ON_PURPOSE = "waybill-test-violation";

/** A document of an operator that names what another row has: PostgreSQL finds it, and a person is answered. */
const ANSWERED = ["signatures_text_per_enterprise"];

/** The lines of a log that tell of trouble. */
export const troubleIn = (log: string): string[] =>
  log.split("\n").filter((line) => {
    const found = TROUBLE.exec(line);
    return found !== null && found[1] !== ON_PURPOSE && !ANSWERED.some((name) => line.includes(`"${name}"`));
  });
