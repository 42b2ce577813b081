/** The actions of buttons and keys, with the keys of each. Where its button is off or not there, its keys do nothing. */
import type { Action } from "../ui/button";

const SEND = { keys: ["Control+Enter"], hint: "Ctrl Enter" } as const;
/** Where there is a field for one line, in which Enter sends. */
const SEND_LINE = { keys: ["Control+Enter", "Enter"] } as const;

export const ACTIONS = {
  approve: { name: "Approve", keys: ["A", "Control+Enter"], hint: "A" },
  deny: { name: "Deny", keys: ["D"], hint: "D" },
  edit: { name: "Edit", keys: ["E"], hint: "E" },
  allow: { name: "Always allow", keys: ["L"], hint: "L", after: "…" },
  approveEdited: { name: "Approve", ...SEND },
  denyForReason: { name: "Deny", ...SEND_LINE, hint: "Enter" },
  saveRule: { name: "Save rule and approve", ...SEND },
  back: { name: "Back", keys: ["Escape"], hint: "Esc" },
  approveAll: { name: "Approve all", keys: ["Shift+A"], hint: "⇧A" },
  denyAll: { name: "Deny all", keys: ["Shift+D"], hint: "⇧D" },
  sendAnswer: { name: "Send", ...SEND },
  raiseBudget: { name: "Continue", ...SEND_LINE, hint: "Ctrl Enter" },
  goOn: { name: "Continue", ...SEND },
  goOnWithout: { name: "Continue without it", ...SEND },
} as const satisfies Record<string, Action>;
