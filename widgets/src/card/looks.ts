/** The name and look of each state, and the names and keys of a card's actions. */
import type { CallState } from "../protocol";
import { SHARED } from "../text/words.gen";
import type { IconName } from "../ui/icon";
import type { Action } from "../ui/parts";

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

const NAMES = SHARED.actions;

const SEND = { keys: ["Control+Enter"], hint: "Ctrl Enter" } as const;
/** Where there is a field for one line, in which Enter sends. */
const SEND_LINE = { keys: ["Control+Enter", "Enter"] } as const;

export const ACTIONS = {
  approve: { name: NAMES.approve, keys: ["A", "Control+Enter"], hint: "A" },
  dontAsk: { name: "Don’t ask again", keys: ["R"], hint: "R", after: "…" },
  deny: { name: NAMES.deny, keys: ["D"], hint: "D" },
  edit: { name: "Edit", keys: ["E"], hint: "E" },
  allow: { name: "Always allow", keys: ["L"], hint: "L", after: "…" },
  approveEdited: { name: NAMES.approve, ...SEND },
  denyForReason: { name: NAMES.deny, ...SEND_LINE, hint: "Enter" },
  allowInRun: { name: NAMES.allowInRun, ...SEND },
  saveRule: { name: "Save rule and approve", ...SEND },
  back: { name: "Back", keys: ["Escape"], hint: "Esc" },
  approveAll: { name: "Approve all", keys: ["Shift+A"], hint: "⇧A" },
  denyAll: { name: "Deny all", keys: ["Shift+D"], hint: "⇧D" },
  sendAnswer: { name: "Send", ...SEND },
  skip: { name: "Skip", keys: [] },
  sendLine: { name: "Send", ...SEND_LINE, hint: "Enter" },
  raiseBudget: { name: NAMES.goOn, ...SEND_LINE, hint: "Ctrl Enter" },
  goOn: { name: NAMES.goOn, ...SEND },
  goOnWithout: { name: NAMES.goOnWithout, ...SEND },
} as const satisfies Record<string, Action>;
