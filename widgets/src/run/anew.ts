/** Runs a prompt again: its card asks by an event, and the JupyterLab extension runs its cell. Neither imports the other. */

export const BEGIN_ANEW = "agent-kernel:begin-anew";

/** In the metadata of the request to run the cell; the kernel reads it. */
export const NEW_CONVERSATION = "agentKernelNewConversation";

export interface BeginAnew {
  /** The cell to run. Without it, the event asks whether a notebook would. */
  readonly cellId: string | null;
}

/** Whether this page can run cells. */
export function canBeginAnew(): boolean {
  return ask(document, null);
}

/** Runs the cell again, in the notebook around `place`; its prompt begins a new conversation. False where none did. */
export function beginAnew(place: EventTarget, cellId: string): boolean {
  return ask(place, cellId);
}

function ask(place: EventTarget, cellId: string | null): boolean {
  const detail: BeginAnew = { cellId };
  return !place.dispatchEvent(new CustomEvent(BEGIN_ANEW, { bubbles: true, cancelable: true, detail }));
}
