/** Rows in columns for people, each as wide as its widest cell. */

/** A line of titles and one a row; one sentence where there is nothing to show. */
export function table(titles: readonly string[], rows: readonly string[][], nothing: string): string[] {
  if (rows.length === 0) return [nothing];
  const lines = [titles.map((title) => title.toUpperCase()), ...rows];
  const widths = titles.map((_, column) => Math.max(...lines.map((line) => widthOf(line[column] ?? ""))));
  return lines.map((line) =>
    line
      .map((cell, column) => cell + " ".repeat((widths[column] ?? 0) - widthOf(cell)))
      .join("  ")
      .trimEnd(),
  );
}

/** A terminal gives Chinese, Japanese and Korean characters two cells. */
const widthOf = (text: string): number =>
  [...CHARACTERS.segment(text)].reduce((sum, { segment }) => sum + (WIDE.test(segment) ? 2 : 1), 0);

const CHARACTERS = new Intl.Segmenter();

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Extended_Pictographic}/u;

/** The moment as people here read it, to the second. */
export const timeOf = (at: string): string => new Date(at).toLocaleString("sv-SE");

/** Rough, as one says it: 4 s, 12 min, 3 h, 2 d. */
export function ageOf(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}
