/** The file changes of a kernel's calls, from the server, in the words of a record. */
import { timeOfDay } from "../../src/text/format";
import { visible } from "../../src/text/invisible";

export interface FileChange {
  readonly approval_id: string;
  readonly run_id: string;
  readonly tool_name: string;
  readonly path: string;
  readonly state: "as_left" | "changed" | "undone";
  readonly changed_at: string | null;
}

/** The text of a change in a record's row; `button` where it can be undone. */
export interface Offer {
  readonly approvalId: string;
  readonly button: string | null;
  readonly words: string;
}

/** Of one run, the last change first, because that is the one to begin with. */
export function offersOf(runId: string, changes: readonly FileChange[]): Offer[] {
  return changes
    .filter((change) => change.run_id === runId)
    .reverse()
    .map(offerOf);
}

function offerOf(change: FileChange): Offer {
  const path = visible(change.path);
  const approvalId = change.approval_id;
  if (change.state === "undone")
    return { approvalId, button: null, words: `Undone: ${path} is as it was before. The model is told.` };
  if (change.state === "changed")
    return {
      approvalId,
      button: null,
      words: `${path} was changed since. Undo would lose that, so it is not offered.`,
    };
  const before = change.changed_at
    ? `Puts back the file of ${timeOfDay(change.changed_at)}.`
    : "Removes the file again.";
  return { approvalId, button: `Undo ${change.tool_name} ${path}`, words: before };
}
