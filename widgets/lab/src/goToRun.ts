/** Ways to a run's cell and card, also where its notebook is closed, or its output hidden or lost. */
import type { JupyterFrontEnd } from "@jupyterlab/application";
import { Dialog, showDialog } from "@jupyterlab/apputils";
import type { Cell, MarkdownCell } from "@jupyterlab/cells";
import { type INotebookTracker, type Notebook, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import { isCode } from "./ask";
import { insertBelow } from "./answers";
import type { RunPlace } from "./listedRuns";
import type { OpenRuns } from "./openRuns";
import { RUN_VIEW } from "./runOutput";

const FIND_MS = 5_000;
const GOING_ON = "Agent run: going on. Its cards are shown where the notebook’s server is.";
const LOST =
  "Its cell is not there: the notebook was loaded again before it was saved, or the cell was deleted. The run goes on, " +
  "and a cell below can show the card.";

export type GoToRun = (run: RunPlace & { readonly run_id?: string }, isWaiting: boolean) => Promise<void>;

export function waysToRuns(app: JupyterFrontEnd, tracker: INotebookTracker): GoToRun {
  const open = async ({ notebook }: RunPlace): Promise<NotebookPanel | null> => {
    if (notebook === null) return null;
    const panel: unknown = await app.commands.execute("docmanager:open", { path: notebook });
    const found = tracker.find((one) => one === panel) ?? null; // Notebook 7 opens it in a tab of the browser
    await found?.revealed;
    return found;
  };
  return async (run, isWaiting) => {
    const panel = tracker.find(({ content }) => indexOf(content, run) >= 0) ?? (await open(run));
    if (panel === null) return;
    if (app.shell.currentWidget !== panel) app.shell.activateById(panel.id);
    const index = indexOf(panel.content, run);
    if (index >= 0) {
      if (isWaiting && run.run_id !== undefined) showAgain(panel.content.widgets[index], run.run_id);
      await reveal(panel.content, index, isWaiting);
    } else if (isWaiting && (await hasKernelOf(panel, run))) await offer(panel);
  };
}

/** Whether a run was asked for in a notebook. Its cells may not be there yet. */
export function isIn({ content, context }: NotebookPanel, run: RunPlace): boolean {
  return indexOf(content, run) >= 0 || (run.notebook !== null && run.notebook === context.localPath);
}

export function indexOf(notebook: Notebook, { cell_id: cellId }: RunPlace): number {
  return cellId === null ? -1 : notebook.widgets.findIndex((cell) => cell.model.id === cellId);
}

/** Has the cells of open runs show them that show nothing: those of a page that was loaded again before it was saved. */
export function showsLostRuns(tracker: INotebookTracker, runs: OpenRuns): void {
  const looked = new WeakSet<NotebookPanel>();
  runs.listed.connect((_, open) =>
    tracker.forEach((panel) => {
      if (looked.has(panel) || !panel.context.isReady) return;
      looked.add(panel);
      for (const run of open) showAgain(panel.content.widgets[indexOf(panel.content, run)], run.run_id);
    }),
  );
}

export function showAgain(cell: Cell | undefined, runId: string): void {
  // A cell that runs now has its own output in a moment.
  if (cell === undefined || !isCode(cell) || cell.model.executionState === "running") return;
  const { outputs } = cell.model;
  const data = { [RUN_VIEW]: { run_id: runId }, "text/plain": GOING_ON };
  if (outputs.length === 0) outputs.add({ output_type: "display_data", data, metadata: {} });
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

/** Tells that a notebook has lost the cell of a run, and offers to show its card below the active one. */
async function offer(panel: NotebookPanel): Promise<void> {
  const buttons = [Dialog.cancelButton(), Dialog.okButton({ label: "Show It Below" })];
  const { button } = await showDialog({ title: "The Card Is Not in This Notebook", body: LOST, buttons });
  if (!button.accept || panel.isDisposed) return;
  if (insertBelow(panel.content, panel.content.activeCellIndex, ["%agent show"]))
    await NotebookActions.run(panel.content, panel.sessionContext);
}

/** Whether the run is from a cell of the kernel that a notebook has now. */
async function hasKernelOf({ sessionContext }: NotebookPanel, run: RunPlace): Promise<boolean> {
  await sessionContext.ready;
  return run.cell_id !== null && run.kernel_id !== null && sessionContext.session?.kernel?.id === run.kernel_id;
}

/** Unfolds what hides a cell's output, and gives the focus to the card that waits in it. */
async function reveal(notebook: Notebook, index: number, isWaiting: boolean): Promise<void> {
  const cell = notebook.widgets[index];
  if (cell === undefined) return;
  if (cell.isHidden) NotebookActions.expandParent(cell, notebook);
  notebook.deselectAll();
  notebook.activeCellIndex = index;
  notebook.mode = "command";
  await notebook.scrollToItem(index, "smart", 0).catch(() => undefined);
  if (isCode(cell)) cell.outputHidden = false;
  const card = isWaiting ? await cardIn(cell.node) : null;
  card?.scrollIntoView({ block: "nearest" });
  (card ?? cell.node).focus({ preventScroll: true });
}
