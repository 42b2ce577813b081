/** What a state is called, and how it looks. */
import type { CallState } from "../protocol";
import type { IconName } from "../ui/icon";

export interface StateLook {
  readonly word: string;
  readonly icon: IconName;
  readonly tone: string;
}

export const CALL_STATES: Readonly<Record<CallState, StateLook>> = {
  proposed: { word: "Preparing", icon: "prep", tone: "ak-calm" },
  invalid: { word: "Not valid", icon: "invalid", tone: "ak-bad" },
  awaiting_approval: { word: "Waiting for you", icon: "wait", tone: "ak-turn" },
  approved: { word: "Approved, next in line", icon: "clock", tone: "ak-calm" },
  executing: { word: "Running", icon: "run", tone: "ak-calm ak-spin" },
  success: { word: "Done", icon: "check", tone: "ak-ok" },
  error: { word: "Failed", icon: "cross", tone: "ak-bad" },
  denied: { word: "Denied", icon: "deny", tone: "ak-calm" },
  cancelled: { word: "Cancelled", icon: "cancel", tone: "ak-calm" },
  superseded: { word: "Replaced", icon: "skip", tone: "ak-calm" },
  expired: { word: "Expired", icon: "expired", tone: "ak-calm" },
  unknown: { word: "Outcome unknown", icon: "unknown", tone: "ak-warn" },
};

export const ASKING: StateLook = { word: "Waiting for your answer", icon: "ask", tone: "ak-turn" };

/** A call that has been handed over, and that the kernel takes up after the user's own cell. */
export const NEXT_IN_LINE = CALL_STATES.approved;
