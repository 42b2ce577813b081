/** What folds when. A waiting, running or unknown card never does. When the next step starts, a done card folds its call; what
 * it has shown stays in view, so that the person who is asked next can look at it. */
import type { CallState } from "../protocol";
import { callsInOrder, needsYou, type Call, type RunState } from "../state/model";
import { hasRichOutput } from "../state/outputs";

/** `shown`: what came out, without the call. */
export type Fold = "open" | "shown" | "line";

/** States that a call ends in, and that fold to a line. */
const FOLDING = new Set<CallState>(["success", "error", "invalid", "denied", "cancelled", "superseded", "expired"]);
const ALWAYS_OPEN = new Set<CallState>(["proposed", "awaiting_approval", "approved", "executing", "unknown"]);
/** The number of plots and tables of earlier steps that stay in view; and, while a call waits, of steps whose texts do. */
const RICH_CALLS = 20;
const TEXT_STEPS = 3;

/** The shown part of each card that the person has not opened or closed. */
export function foldsOf(state: RunState): ReadonlyMap<string, Fold> {
  const calls = callsInOrder(state);
  const rich = new Set(calls.filter((call) => hasRichOutput(call.outputs)).slice(-RICH_CALLS));
  const asking = calls.find(needsYou);
  const isInView = (call: Call): boolean => {
    if (hasRichOutput(call.outputs)) return rich.has(call);
    return asking !== undefined && call.step >= asking.step - TEXT_STEPS && hasResult(call);
  };
  return new Map(calls.map((call) => [call.tool_call_id, foldOf(call, call.step === state.step, isInView)]));
}

/** Whether a call with this state has a head that opens and closes it. */
export function folds(state: CallState): boolean {
  return FOLDING.has(state);
}

/** Whether a card is no more than its head. */
export function isLine({ state }: Call, fold: Fold): boolean {
  return state === "proposed" || (FOLDING.has(state) && fold === "line");
}

function foldOf(call: Call, isLast: boolean, isInView: (call: Call) => boolean): Fold {
  if (ALWAYS_OPEN.has(call.state)) return "open";
  if (call.state === "error" && isLast) return "open";
  if (call.state === "cancelled") return isLast && call.outputs.blocks.length > 0 ? "open" : "line";
  if (call.state !== "success") return "line";
  if (isLast) return "open";
  return isInView(call) ? "shown" : "line";
}

/** What a tool read by itself is of no interest; what the person let it do is. */
function hasResult(call: Call): boolean {
  const decided = call.decider?.kind === "you" || call.decider?.kind === "other";
  return call.outputs.blocks.length > 0 || (decided && call.result !== null && call.result !== "");
}
