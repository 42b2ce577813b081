/** What folds when. A waiting, running or unknown card never does; a done card does when the next step starts. */
import type { CallState } from "../protocol";
import { callsInOrder, type Call, type RunState } from "../state";
import { hasRichOutput } from "../state/outputs";

const ALWAYS_OPEN = new Set<CallState>(["proposed", "awaiting_approval", "approved", "executing", "unknown"]);

export function isOpen(call: Call, state: RunState, byHand: boolean | undefined): boolean {
  if (byHand !== undefined) return byHand;
  if (call.state === "success" || call.state === "error") {
    return call.step === state.step || (hasRichOutput(call.outputs) && call.step === lastCallStep(state));
  }
  if (call.state === "cancelled") return call.outputs.blocks.length > 0 && call.step === state.step;
  return ALWAYS_OPEN.has(call.state);
}

function lastCallStep(state: RunState): number {
  return callsInOrder(state).at(-1)?.step ?? 0;
}
