/** What Undo does, in words. */
import { ON_CELLS } from "./arguments";
import { timeOfDay } from "./format";

/** `changedAt` is as `undo` of a call: when what comes back was there last; empty where it was not there. */
export function wayBack(toolName: string, changedAt: string | null): string {
  const what = ON_CELLS.includes(toolName) ? "cell" : "file";
  return changedAt ? `Puts back the ${what} of ${timeOfDay(changedAt)}.` : `Removes the ${what} again.`;
}
