/** Tells the kernel of cells that are gone, with the next request, also where JupyterLab does not: its merge of cells
 * makes a new one. A run whose cell is gone, and which no page shows, is then ended. */
import type { INotebookModel, INotebookTracker } from "@jupyterlab/notebook";

/** Watches all notebooks in the page. */
export function reportsRemoved(tracker: INotebookTracker): void {
  tracker.widgetAdded.connect((_, panel) => {
    void panel.context.ready.then(() => {
      if (!panel.isDisposed && panel.content.model !== null) watch(panel.content.model);
    });
  });
}

function watch(model: INotebookModel): void {
  let known = ids(model);
  let due = false;
  model.cells.changed.connect(() => {
    if (due) return;
    due = true;
    // A cell that is moved is taken out and put in again.
    queueMicrotask(() => {
      due = false;
      if (model.isDisposed) return;
      const now = ids(model);
      const gone = [...known].filter((id) => !now.has(id) && !model.deletedCells.includes(id));
      model.deletedCells.push(...gone);
      known = now;
    });
  });
}

function ids(model: INotebookModel): ReadonlySet<string> {
  return new Set(Array.from(model.cells, (cell) => cell.id));
}
