/** Finds the cells of runs in a notebook, and shows there again what is open and lost its output. */
import type { ICellModel, ICodeCellModel } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookActions, NotebookPanel } from "@jupyterlab/notebook";
import { isOfOtherRun, isOfRun, OPEN_RUN, RUN_VIEW } from "./documents";
import type { RunPlace } from "./listedRuns";
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

/** Has the cells of open runs show them that no page shows: those of a page that was loaded again before it was saved. The
 * record of an earlier run, which the file has, makes room, as it did when the cell ran again. `executions` tells of the cells that are run here. */
export function showsLostRuns(
  tracker: INotebookTracker,
  runs: Pick<OpenRuns, "listed">,
  executions: typeof NotebookActions.executionScheduled,
): void {
  // They have shown something, and may have been cleared since. A notebook that is loaded again has other models.
  const known = new WeakSet<ICellModel>();
  executions.connect((_, { cell }) => known.add(cell.model));
  runs.listed.connect((_, open) =>
    tracker.forEach((panel) => {
      if (!panel.context.isReady) return;
      for (const run of open) {
        const index = indexOf(panel, run);
        const model = panel.content.widgets[index]?.model;
        if (model === undefined || known.has(model)) continue;
        const outputs = (model as Partial<ICodeCellModel>).outputs?.toJSON() ?? [];
        const isOlder = outputs.every((output) => isOfOtherRun(output, run.run_id));
        if (!isOlder || (!run.shown && showAgain(panel, index, run.run_id))) known.add(model);
      }
    }),
  );
}

/** Shows a run in its cell, in place of what earlier ones have left there. False where it can't, or the run is shown. */
export function showAgain({ content }: NotebookPanel, index: number, runId: string): boolean {
  const cell = content.widgets[index]?.model as Partial<ICodeCellModel> | undefined;
  // A cell that runs now has its own output in a moment.
  if (content.model?.readOnly !== false || cell?.outputs === undefined || cell.executionState === "running")
    return false;
  const outputs = cell.outputs.toJSON();
  if (outputs.some((output) => isOfRun(output, runId))) return false;
  const data = { [RUN_VIEW]: { run_id: runId }, "text/plain": GOING_ON };
  const shown = { output_type: "display_data", data, metadata: { [OPEN_RUN]: runId } };
  const kept = outputs.filter((output) => !isOfOtherRun(output, runId));
  if (kept.length < outputs.length) cell.outputs.fromJSON(kept);
  cell.outputs.add(shown);
  return true;
}
