/** Finds the cells of runs in a notebook, and shows there again what is open and lost its output. */
import type { ICellModel, ICodeCellModel } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookActions, NotebookPanel } from "@jupyterlab/notebook";
import { hasShown, isOfOtherRun, isOfRun, OPEN_RUN, RUN_VIEW } from "./documents";
import type { ListedRun, RunPlace } from "./listedRuns";
import type { OpenRuns } from "./openRuns";

const GOING_ON = "Agent run: going on. Its cards are shown where the notebook’s server is.";

/** Whether a run was asked for in a notebook. Its cells may not be there yet. Copies of a notebook have the same cells. */
export function isIn(panel: NotebookPanel, run: RunPlace): boolean {
  return run.notebook === null ? hasKernelOf(panel, run) : run.notebook === panel.context.localPath;
}

/** Whether a run is of the kernel that a notebook has now. */
export function hasKernelOf({ sessionContext }: NotebookPanel, { kernel_id: id }: RunPlace): boolean {
  return id !== null && sessionContext.session?.kernel?.id === id;
}

/** The place of a run's cell; -1 where it is not there. */
export function indexOf(panel: NotebookPanel, run: RunPlace): number {
  if (run.cell_id === null || !isIn(panel, run)) return -1;
  return panel.content.widgets.findIndex((cell) => cell.model.id === run.cell_id);
}

/** Has the cells of open runs show them: those whose outputs were cleared, and those that no page shows, as of a page that was
 * loaded again before it was saved. The record of an earlier run, which the file has, makes room, as it did when the cell
 * ran again. `executions` tells of the cells that are run here. */
export function showsLostRuns(
  tracker: INotebookTracker,
  runs: Pick<OpenRuns, "listed">,
  executions: typeof NotebookActions.executionScheduled,
): void {
  // What they ran before may still be listed. A notebook that is loaded again has other models.
  const ran = new WeakSet<ICellModel>();
  executions.connect((_, { cell }) => ran.add(cell.model));
  runs.listed.connect((_, open) =>
    tracker.forEach((panel) => {
      if (!panel.context.isReady) return;
      for (const run of open) {
        const index = indexOf(panel, run);
        const model = panel.content.widgets[index]?.model;
        if (model === undefined) continue;
        if (hasShown(panel, model.id, run.run_id) || (!run.shown && !ran.has(model) && isOlder(model, run)))
          showAgain(panel, index, run.run_id);
      }
    }),
  );
}

/** Whether a cell has nothing but what earlier runs have left. */
function isOlder(model: ICellModel, { run_id: runId }: ListedRun): boolean {
  const outputs = (model as Partial<ICodeCellModel>).outputs?.toJSON() ?? [];
  return outputs.every((output) => isOfOtherRun(output, runId));
}

/** Shows a run in its cell, in place of what earlier ones have left there. False where it can't, or the run is shown. */
export function showAgain(panel: NotebookPanel, index: number, runId: string): boolean {
  const { model, widgets } = panel.content;
  const cell = widgets[index]?.model as (ICellModel & Partial<ICodeCellModel>) | undefined;
  if (model?.readOnly !== false || cell?.outputs === undefined) return false;
  const isCleared = hasShown(panel, cell.id, runId);
  // Else a cell that runs has its own output in a moment.
  if (cell.executionState === "running" && !isCleared) return false;
  const outputs = cell.outputs.toJSON();
  if (outputs.some((output) => isOfRun(output, runId))) return false;
  const data = { [RUN_VIEW]: { run_id: runId }, "text/plain": GOING_ON };
  const shown = { output_type: "display_data", data, metadata: { [OPEN_RUN]: runId } };
  const kept = outputs.filter((output) => isCleared || !isOfOtherRun(output, runId));
  if (kept.length < outputs.length) cell.outputs.fromJSON(kept);
  cell.outputs.add(shown);
  return true;
}
