/** Makes cells of a run's code: its card asks by an event, the JupyterLab extension answers. Neither imports the other. */

export const INSERT_CELLS = "agent-kernel:insert-cells";

export interface InsertCells {
  /** The cells' sources, in order. Without any, the event asks whether a notebook would insert them. */
  readonly cells: readonly string[];
}

/** Whether this page can make cells of code. */
export function canInsertCells(): boolean {
  return insertCells(document, []);
}

/** Puts cells below the one that has `place` in its output. False where none did: in other front ends. */
export function insertCells(place: EventTarget, cells: readonly string[]): boolean {
  const detail: InsertCells = { cells };
  return !place.dispatchEvent(new CustomEvent(INSERT_CELLS, { bubbles: true, cancelable: true, detail }));
}
