/** Which lines an edit has changed. */
import { diffArrays } from "diff";

/** The numbers, from 1, of the lines of `after` that are not in `before`. */
export function changedLines(before: string, after: string): number[] {
  const changed: number[] = [];
  let line = 1;
  for (const part of diffArrays(before.split("\n"), after.split("\n"))) {
    if (part.removed) continue;
    if (part.added) changed.push(...part.value.map((_, offset) => line + offset));
    line += part.value.length;
  }
  return changed;
}
