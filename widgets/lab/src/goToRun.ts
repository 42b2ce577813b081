/** Ways to a run's cell and card, also where its notebook is closed, or its output hidden or lost. */
import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { Cell, MarkdownCell } from "@jupyterlab/cells";
import { type INotebookTracker, type Notebook, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import { isCode } from "./ask";
import type { RunPlace } from "./listedRuns";
import { indexOf, showAgain } from "./documents";

const FIND_MS = 5_000;
const SCROLL_MS = 2_000;

/** False where its cell is not to be seen: it was deleted, or is not drawn yet. JupyterLab draws those of a large notebook
 * one after another, for minutes, and scrolls to none before. */
export type GoToRun = (run: RunPlace & { readonly run_id?: string }, isWaiting: boolean) => Promise<boolean>;

export function waysToRuns(app: JupyterFrontEnd, tracker: INotebookTracker): GoToRun {
  const open = async ({ notebook }: RunPlace): Promise<NotebookPanel | null> => {
    if (notebook === null) return null;
    const panel: unknown = await app.commands.execute("docmanager:open", { path: notebook });
    const found = tracker.find((one) => one === panel) ?? null; // Notebook 7 opens it in a tab of the browser
    await found?.revealed;
    return found;
  };
  return async (run, isWaiting) => {
    const panel = tracker.find((one) => indexOf(one, run) >= 0) ?? (await open(run));
    if (panel === null) return true;
    if (app.shell.currentWidget !== panel) app.shell.activateById(panel.id);
    const index = indexOf(panel, run);
    if (index >= 0) {
      if (isWaiting && run.run_id !== undefined) showAgain(panel, index, run.run_id);
      return reveal(panel.content, index, isWaiting);
    }
    return run.cell_id === null;
  };
}

/** The folded heading that a cell is under. */
export function headingOf(notebook: Notebook, index: number): Cell | undefined {
  const isFolded = (cell: Cell): boolean => cell.model.type === "markdown" && (cell as MarkdownCell).headingCollapsed;
  return notebook.widgets.slice(0, index).findLast((cell) => isFolded(cell) && !cell.isHidden);
}

/** The card that asks the person something. It may have to be drawn first. */
export async function cardIn(place: HTMLElement): Promise<HTMLElement | null> {
  const until = Date.now() + FIND_MS;
  // JupyterLab gives the focus to a notebook that comes to the front a moment after it came.
  await frame();
  for (;;) {
    await frame();
    const card = place.querySelector<HTMLElement>('.ak-run [data-turn="you"]');
    if (card !== null || Date.now() > until) return card;
  }
}

export function frame(): Promise<void> {
  return new Promise((done) => requestAnimationFrame(() => done()));
}

/** Unfolds what hides a cell's output, and gives the focus to the card that waits in it. Whether the cell is drawn. */
async function reveal(notebook: Notebook, index: number, isWaiting: boolean): Promise<boolean> {
  const cell = notebook.widgets[index];
  if (cell === undefined) return false;
  if (cell.isHidden) NotebookActions.expandParent(cell, notebook);
  notebook.deselectAll();
  notebook.activeCellIndex = index;
  notebook.mode = "command";
  const scrolled = notebook.scrollToItem(index, "smart", 0).catch(() => undefined);
  await Promise.race([scrolled, new Promise((late) => setTimeout(late, SCROLL_MS))]);
  if (!cell.node.isConnected) return false;
  if (isCode(cell)) cell.outputHidden = false;
  const card = isWaiting ? await cardIn(cell.node) : null;
  card?.scrollIntoView({ block: "nearest" });
  (card ?? cell.node).focus({ preventScroll: true });
  return true;
}
