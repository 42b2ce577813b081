/** Makes cells of code: below the cell whose output asked for it, and nothing is run. */
import type { INotebookTracker, Notebook, NotebookPanel } from "@jupyterlab/notebook";
import { NotebookActions } from "@jupyterlab/notebook";
import { INSERT_CELLS, type InsertCells } from "../../src/ui/makeCells";

const MOST_CELLS = 1_000;
const MOST_CHARACTERS = 2_000_000;

export interface Place {
  readonly panel: NotebookPanel;
  readonly index: number;
}

/** The cell around an element; `null` for what stands elsewhere, as in a view of its own or a console. */
export function placeOf(tracker: INotebookTracker, element: Node): Place | null {
  const panel = tracker.find((one) => one.content.node.contains(element));
  const index = panel?.content.widgets.findIndex((cell) => cell.node.contains(element)) ?? -1;
  return panel === undefined || index < 0 ? null : { panel, index };
}

/** Answers cards and records of all notebooks in the page. */
export function answerInsertions(tracker: INotebookTracker): void {
  document.addEventListener(INSERT_CELLS, (event) => {
    const cells = sources(event);
    if (cells === null) return;
    const place = event.target instanceof Element ? placeOf(tracker, event.target) : null;
    if (cells.length > 0 && (place === null || !insertBelow(place.panel.content, place.index, cells))) return;
    event.preventDefault();
  });
}

/** Any script in the page may have sent it. */
function sources(event: Event): readonly string[] | null {
  const cells = event instanceof CustomEvent ? (event.detail as Partial<InsertCells> | null)?.cells : null;
  if (!Array.isArray(cells) || cells.length > MOST_CELLS || !cells.every((cell) => typeof cell === "string"))
    return null;
  return cells.reduce((sum, cell) => sum + cell.length, 0) > MOST_CHARACTERS ? null : cells;
}

/** One step for the notebook's undo. The focus goes to the first of them, in command mode. */
export function insertBelow(notebook: Notebook, index: number, cells: readonly string[]): boolean {
  if (notebook.model === null || notebook.model.readOnly) return false;
  const insert = (source: string) => ({ cell_type: "code" as const, source, metadata: { trusted: true } });
  notebook.model.sharedModel.insertCells(index + 1, cells.map(insert));
  notebook.activeCellIndex = index + 1;
  notebook.deselectAll();
  notebook.mode = "command";
  void notebook.scrollToItem(index + 1, "auto", 0).catch(() => undefined);
  void NotebookActions.focusActiveCell(notebook);
  return true;
}
