/** Whether a cell still has the source that a card is about: the card asks by an event, the JupyterLab extension answers,
 * as often as the cell changes. */

export const WATCH_CELL = "agent-kernel:watch-cell";

export interface WatchCell {
  readonly cellId: string;
  /** The SHA-256 of the source, in hexadecimal digits. */
  readonly digest: string;
  readonly onState: (isStale: boolean) => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

export function watchCell(place: EventTarget, detail: WatchCell): void {
  place.dispatchEvent(new CustomEvent(WATCH_CELL, { bubbles: true, detail }));
}
