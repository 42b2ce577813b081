/** What a card asks of the notebook around it, by events that the JupyterLab extension answers (`lab/src/answers`). Neither
 * imports the other, and in other front ends nobody answers. */

/** Whether anybody here has done what an event asks for. */
export function ask<T>(place: EventTarget, name: string, detail: T | null): boolean {
  return !place.dispatchEvent(new CustomEvent(name, { bubbles: true, cancelable: true, detail }));
}

export const INSERT_CELLS = "agent-kernel:insert-cells";

export interface InsertCells {
  /** The cells' sources, in order. Without any, the event asks whether a notebook would insert them. */
  readonly cells: readonly string[];
}

/** Puts cells below the one that has `place` in its output. False where none did: in other front ends. */
export function insertCells(place: EventTarget, cells: readonly string[]): boolean {
  return ask<InsertCells>(place, INSERT_CELLS, { cells });
}

export const BEGIN_CONVERSATION = "agent-kernel:begin-conversation";

/** In the metadata of the request to run the cell; the kernel reads it. */
export const NEW_CONVERSATION = "agentKernelNewConversation";

export interface BeginConversation {
  /** The cell to run; "" is the one around. Without it, the event asks whether a notebook would. */
  readonly cellId: string | null;
}

/** Runs the cell again, in the notebook around `place`, by default the cell that `place` is in; its prompt begins a new
 * conversation. False where none did. */
export function beginConversation(place: EventTarget, cellId: string | null = ""): boolean {
  return ask<BeginConversation>(place, BEGIN_CONVERSATION, { cellId });
}

/** Without a detail, the event asks whether a kernel answers. */
export const COMPLETE = "agent-kernel:complete";

/** Places in `code` count UTF-16 units, as those of JavaScript's texts do. */
export interface Completions {
  readonly from: number;
  readonly to: number;
  readonly options: readonly { readonly label: string }[];
}

export interface Complete {
  readonly code: string;
  readonly position: number;
  /** Called at most once; `null` where the kernel knows nothing. */
  readonly answer: (found: Completions | null) => void;
}

/** What can stand at a place in code; `null` also where nobody answers, or too late. */
export function complete(place: EventTarget, code: string, position: number): Promise<Completions | null> {
  return new Promise((resolve) => {
    if (!ask<Complete>(place, COMPLETE, { code, position, answer: resolve })) resolve(null);
  });
}

export const WATCH_CELL = "agent-kernel:watch-cell";

export interface WatchCell {
  readonly cellId: string;
  /** The SHA-256 of the source, in hexadecimal digits. */
  readonly digest: string;
  /** What the card does to it; `null` where no lock keeps it from that. */
  readonly change: "edit" | "delete" | null;
  /** Called with the reason why the cell is not the one that the card is about any more, or `null`. */
  readonly onState: (stale: "changed" | "locked" | null) => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

export function watchCell(place: EventTarget, detail: WatchCell): void {
  place.dispatchEvent(new CustomEvent(WATCH_CELL, { bubbles: true, detail }));
}
