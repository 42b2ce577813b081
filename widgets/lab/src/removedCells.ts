/** Has the kernel hear of all cells that are gone, as it does of those that JupyterLab's own command deletes. */
import type { INotebookModel, INotebookTracker } from "@jupyterlab/notebook";

/** Watches all notebooks in the page. */
export function reportsRemoved(tracker: INotebookTracker): void {
  tracker.widgetAdded.connect((_, panel) => {
    void panel.context.ready.then(() => {
      if (!panel.isDisposed && panel.content.model !== null) reportRemoved(panel.content.model);
    });
  });
}

export function reportRemoved(model: Pick<INotebookModel, "cells" | "deletedCells" | "isDisposed">): void {
  let known = idsOf(model);
  let due = false;
  model.cells.changed.connect(() => {
    if (due) return;
    due = true;
    // A cell that is moved is taken out and put in again.
    queueMicrotask(() => {
      due = false;
      if (model.isDisposed) return;
      const now = idsOf(model);
      const deleted = new Set([...model.deletedCells, ...known]);
      // Those that came back, as by Undo, are no news for the kernel.
      model.deletedCells.splice(0, Infinity, ...[...deleted].filter((id) => !now.has(id)));
      known = now;
    });
  });
}

function idsOf(model: Pick<INotebookModel, "cells">): ReadonlySet<string> {
  return new Set(Array.from(model.cells, (cell) => cell.id));
}
