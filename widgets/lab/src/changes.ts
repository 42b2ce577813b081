/** The changes of files and cells by a kernel's calls, from the server, in the words of a record. */
import { ON_CELLS } from "../../src/text/arguments";
import { asBefore, nameOf, titleOf, wayBack } from "../../src/text/words";
import { visible } from "../../src/text/invisible";

export interface Change {
  readonly approval_id: string;
  readonly conversation_id: string;
  readonly run_id: string;
  readonly tool_name: string;
  /** Of a file, or `cell:ID`. */
  readonly path: string;
  readonly state: "as_left" | "changed" | "undone";
  readonly changed_at: string | null;
}

/** The text of a change in a record's row; `button` where it can be undone. */
export interface Offer {
  /** Of the request that undoes it. */
  readonly path: string;
  readonly button: string | null;
  readonly words: string;
}

const WHOLE_RUN = "Puts back the files and cells that are as the run left them. What the kernel computed stays.";

/** Of one run, the last change first, because that is the one to begin with. */
export function offersOf(runId: string, changes: readonly Change[]): Offer[] {
  return changes
    .filter((change) => change.run_id === runId)
    .reverse()
    .map(offerOf);
}

/** All changes of a run at once, where there are several to undo, or all were undone. */
export function allOf(runId: string, changes: readonly Change[]): Offer | null {
  const all = changes.filter((change) => change.run_id === runId);
  const left = all.filter(({ state }) => state !== "undone");
  const [first] = all;
  if (first === undefined || all.length < 2) return null;
  const path = `conversations/${encodeURIComponent(first.conversation_id)}/runs/${encodeURIComponent(runId)}`;
  if (left.length === 0)
    return { path: `${path}/redo`, button: "Redo the changes of this run", words: "Takes the undo back." };
  // An earlier change of the same file is as it was left once the later one is undone.
  if (left.length < 2 || !left.some(({ state }) => state === "as_left")) return null;
  return { path: `${path}/undo`, button: "Undo this run", words: WHOLE_RUN };
}

function offerOf(change: Change): Offer {
  const isCell = ON_CELLS.includes(change.tool_name);
  const subject = isCell ? "the cell" : visible(change.path);
  const path = `approvals/${encodeURIComponent(change.approval_id)}/${change.state === "undone" ? "redo" : "undo"}`;
  const what = isCell ? nameOf(change.tool_name) : `${titleOf(change.tool_name, subject)} ${subject}`;
  if (change.state === "undone")
    return { path, button: `Redo: ${what}`, words: `Undone: ${asBefore(subject, change.changed_at)}` };
  if (change.state === "changed")
    return {
      path,
      button: null,
      words: `${isCell ? "The cell" : subject} was changed since. Undo would lose that, so it is not offered.`,
    };
  return { path, button: `Undo: ${what}`, words: wayBack(change.tool_name, change.changed_at) };
}
