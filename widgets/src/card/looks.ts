/** The name and look of each state. */
import type { CallState } from "../protocol";
import { SHARED } from "../text/words.gen";
import type { IconName } from "../ui/icon";

export interface StateLook {
  readonly word: string;
  readonly icon: IconName;
  readonly tone: string;
}

function look(state: CallState, icon: IconName, tone: string): StateLook {
  return { word: SHARED.states[state], icon, tone };
}

export const CALL_STATES: Readonly<Record<CallState, StateLook>> = {
  proposed: look("proposed", "prep", "ak-calm"),
  invalid: look("invalid", "invalid", "ak-bad"),
  awaiting_approval: look("awaiting_approval", "wait", "ak-turn"),
  approved: look("approved", "clock", "ak-calm"),
  executing: look("executing", "run", "ak-calm ak-spin"),
  success: look("success", "check", "ak-ok"),
  error: look("error", "cross", "ak-bad"),
  denied: look("denied", "deny", "ak-calm"),
  cancelled: look("cancelled", "cancel", "ak-calm"),
  superseded: look("superseded", "skip", "ak-calm"),
  expired: look("expired", "expired", "ak-calm"),
  unknown: look("unknown", "unknown", "ak-warn"),
};

export const ASKING: StateLook = { word: "Waiting for your answer", icon: "ask", tone: "ak-turn" };
