/** What folds when. A waiting, running or unknown card never does. When the next step starts, a done card folds its call; what
 * it has shown stays in view, so that the person who is asked next can look at it. */
import type { CallState } from "../protocol";
import { callsInOrder, needsYou, type Call, type RunState } from "../state";
import { hasRichOutput } from "../state/outputs";

/** `shown`: what came out, without the call. */
export type Fold = "open" | "shown" | "line";

const ALWAYS_OPEN = new Set<CallState>(["proposed", "awaiting_approval", "approved", "executing", "unknown"]);
/** So many plots and tables of earlier steps stay in view; and, while a call waits, the texts of so many steps. */
const RICH_CALLS = 20;
const TEXT_STEPS = 3;

export function foldOf(call: Call, state: RunState, byHand: boolean | undefined): Fold {
  if (byHand !== undefined) return byHand ? "open" : "line";
  if (ALWAYS_OPEN.has(call.state)) return "open";
  const isLast = call.step === state.step;
  if (call.state === "error" && isLast) return "open";
  if (call.state === "cancelled") return isLast && call.outputs.blocks.length > 0 ? "open" : "line";
  if (call.state !== "success") return "line";
  if (isLast) return "open";
  return keepsInView(call, state) ? "shown" : "line";
}

function keepsInView(call: Call, state: RunState): boolean {
  const calls = callsInOrder(state);
  if (hasRichOutput(call.outputs))
    return calls
      .filter((one) => hasRichOutput(one.outputs))
      .slice(-RICH_CALLS)
      .includes(call);
  const asking = calls.find(needsYou);
  return asking !== undefined && call.step >= asking.step - TEXT_STEPS && hasResult(call);
}

/** What a tool read by itself is of no interest; what the person let it do is. */
function hasResult(call: Call): boolean {
  const decided = call.decider?.kind === "you" || call.decider?.kind === "other";
  return call.outputs.blocks.length > 0 || (decided && call.result !== null && call.result !== "");
}
