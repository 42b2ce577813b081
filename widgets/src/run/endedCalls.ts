/** The actions on a call that is over: run it again, go on without knowing, put a file back. */
import type { Retry, Undo } from "../card/context";
import { asksWhatNow, type Call, type RunState } from "../state";

/** The person's choice for a call whose outcome is an error, unknown, or a stored one. */
export type Asked = "retry" | "continue" | null;

/** Offered only where it works: `goesOn` says whether the run does, over a line that is there. */
export function retryOf(call: Call, state: RunState, asked: Asked, goesOn: boolean): Retry {
  if (call.state === "unknown") return unknownRetryOf(call, state, asked, goesOn);
  if (call.state !== "error" && call.cachedAt === null) return "no";
  if (asked === "retry") return "asked";
  return goesOn ? "offered" : "no";
}

/** An answer that the runtime did not take makes room for another. */
function unknownRetryOf(call: Call, state: RunState, asked: Asked, goesOn: boolean): Retry {
  const answered = call.step !== state.step || call.unknownAnswer === "continue";
  if (call.unknownAnswer === "retry" || (answered && asked === "retry")) return "asked";
  if (asked !== null && !answered && call.problem === null) return "sent";
  return (answered || asksWhatNow(call, state)) && goesOn ? "offered" : "no";
}

/** `asked`: for which state of the call (`undone`) this page has asked to turn it. */
export function undoOf(call: Call, asked: boolean | null, goesOn: boolean): Undo {
  const no = call.undone ? "done" : "no";
  // A problem is the answer to an undo: the file is no longer as it was left.
  if (call.undo === null || call.problem !== null) return no;
  if (asked === call.undone) return "asked";
  return goesOn ? (call.undone ? "redo" : "offered") : no;
}
