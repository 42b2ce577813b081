/** Makes a cell active that a windowed notebook has taken from the page: no focus can do that. */
import type { INotebookTracker } from "@jupyterlab/notebook";
import { ACTIVATE_CELL } from "../../src/ui/notebook";
import { placeOf } from "./insert";

/** Answers the runs of all notebooks in the page. */
export function answerActivations(tracker: INotebookTracker): void {
  document.addEventListener(ACTIVATE_CELL, (event) => {
    const wanted = event instanceof CustomEvent ? (event.detail as { cell?: unknown } | null)?.cell : null;
    const notebook = event.target instanceof Element ? placeOf(tracker, event.target)?.panel.content : undefined;
    const index = notebook?.widgets.findIndex((cell) => cell.node === wanted) ?? -1;
    if (notebook !== undefined && index >= 0) notebook.activeCellIndex = index;
  });
}
