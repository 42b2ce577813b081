/** Runs a prompt again: its card asks by an event, and the JupyterLab extension runs its cell. Neither imports the other. */

export const BEGIN_CONVERSATION = "agent-kernel:begin-conversation";

/** In the metadata of the request to run the cell; the kernel reads it. */
export const NEW_CONVERSATION = "agentKernelNewConversation";

export interface BeginConversation {
  /** The cell to run; "" is the one around. Without it, the event asks whether a notebook would. */
  readonly cellId: string | null;
}

/** Whether this page can run cells. */
export function canBeginConversation(): boolean {
  return ask(document, null);
}

/** Runs the cell again, in the notebook around `place`, by default the cell that `place` is in; its prompt begins a new
 * conversation. False where none did. */
export function beginConversation(place: EventTarget, cellId = ""): boolean {
  return ask(place, cellId);
}

function ask(place: EventTarget, cellId: string | null): boolean {
  const detail: BeginConversation = { cellId };
  return !place.dispatchEvent(new CustomEvent(BEGIN_CONVERSATION, { bubbles: true, cancelable: true, detail }));
}
