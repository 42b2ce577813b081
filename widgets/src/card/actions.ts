/** The actions of buttons and keys, with the keys of each. Where its button is off or not there, its keys do nothing. */
import { SHARED } from "../text/words.gen";
import type { Action } from "../ui/button";

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
