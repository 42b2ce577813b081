/** What folds when. A waiting, running or unknown card never does; a done card does when the next step starts. */
import { callsInOrder, type Call, type RunState } from "../state";
import { hasRichOutput } from "../state/outputs";

export function isOpen(call: Call, state: RunState, byHand: boolean | undefined): boolean {
  if (byHand !== undefined) return byHand;
  if (call.state === "success" || call.state === "error") {
    return call.step === state.step || (hasRichOutput(call.outputs) && call.step === lastCallStep(state));
  }
  return true;
}

function lastCallStep(state: RunState): number {
  return callsInOrder(state).at(-1)?.step ?? 0;
}
