/** Runs in the document of a notebook: how one stands, or its record, is put there, so that it is what is saved, whoever saves
 * it; what is open and lost its output is shown again; and the kernel hears of all cells that are gone. */
import type { YCodeCell } from "@jupyter/ydoc";
import type { ICellModel, ICodeCellModel } from "@jupyterlab/cells";
import type { IOutput } from "@jupyterlab/nbformat";
import type { INotebookModel, INotebookTracker, NotebookPanel, NotebookActions } from "@jupyterlab/notebook";
import type { PutRun } from "../../src/protocol";
import type { Answer } from "./cells";
import type { ListedRun, RunPlace } from "./listedRuns";
import type { OpenRuns } from "./openRuns";

/** Of an output: what names the run that it shows. */
export const RUN_VIEW = "application/vnd.agent-kernel.run+json";
/** In an output's metadata: the open run that it shows, by which the server finds it when the notebook is saved. */
export const OPEN_RUN = "agent_kernel_open_run";
/** In an output's metadata: of the results of a run. */
const RESULT = "agent_kernel";
const RECORD = /^.{0,200}data-agent-record="([^"]*)"/s;

/** By notebook and the id of a cell: the open runs that the cell has shown since it last ran. They are the cell's also when
 * its outputs were cleared. */
const shownBy = new WeakMap<INotebookModel, Map<string, Set<string>>>();

/** Watches all notebooks in the page. */
export function remembersRuns(tracker: INotebookTracker): void {
  tracker.widgetAdded.connect((_, panel) => {
    void panel.context.ready.then(() => {
      if (!panel.isDisposed && panel.content.model !== null) rememberRuns(panel.content.model);
    });
  });
}

export function rememberRuns(model: INotebookModel): void {
  const shown = new Map<string, Set<string>>();
  shownBy.set(model, shown);
  const watch = (cell: ICellModel): void => {
    if (!isCode(cell)) return;
    const { id, outputs } = cell;
    const note = (output: { readonly data: unknown }): void => {
      const runId = liveRun(output);
      if (runId !== null) shown.set(id, (shown.get(id) ?? new Set()).add(runId));
    };
    for (let index = 0; index < outputs.length; index++) note(outputs.get(index));
    outputs.changed.connect((_, { newValues }) => newValues.forEach(note));
    cell.stateChanged.connect((_, { name }) => {
      if (name === "executionState" && cell.executionState === "running") shown.delete(id);
    });
  };
  for (const cell of model.cells) watch(cell);
  model.cells.changed.connect((_, { newValues }) => newValues.forEach(watch));
}

/** Whether a cell has shown a run that is open, and has not run again since. */
export function hasShown({ content }: NotebookPanel, cellId: string, runId: string): boolean {
  return (content.model !== null && shownBy.get(content.model)?.get(cellId)?.has(runId)) ?? false;
}

function forget({ content }: NotebookPanel, cellId: string, runId: string): void {
  if (content.model !== null) shownBy.get(content.model)?.get(cellId)?.delete(runId);
}

/** The runs that outputs show which are no records yet. */
export function shownRuns({ content }: NotebookPanel): string[] {
  const outputs = codeCells(content.model?.cells ?? []).flatMap((cell) => cell.sharedModel.getOutputs());
  return [...new Set(outputs.map(liveRun).filter((id) => id !== null))];
}

/** Whether an output shows a run, or is its record. */
export function isOfRun(output: IOutput, runId: string): boolean {
  return liveRun(output) === runId || recordedRun(output) === runId;
}

/** Whether an output is what another run has left: its record, how it stood, or a result. */
export function isOfOtherRun(output: IOutput, runId: string): boolean {
  const result = Object((output["metadata"] as Record<string, unknown> | undefined)?.[RESULT]) as { run?: unknown };
  const run = liveRun(output) ?? recordedRun(output) ?? result.run;
  return typeof run === "string" && run !== runId;
}

export function putRun(panel: NotebookPanel, { run_id: runId, outputs, elsewhere }: PutRun): Answer {
  const [first, ...results] = outputs as unknown as IOutput[];
  if (first === undefined) return { success: false };
  const cells = codeCells(panel.content.model?.cells ?? []);
  let found = false;
  for (const cell of cells) {
    cell.sharedModel.getOutputs().forEach((output, index) => {
      if (!isOfRun(output, runId)) return;
      put(cell, index, found ? (elsewhere as unknown as IOutput) : first);
      if (!found) addMissing(cell, results);
      found = true;
    });
  }
  for (const cell of cells.filter(({ id }) => hasShown(panel, id, runId))) {
    if (!found) {
      // Its outputs were cleared while the run went on.
      cell.outputs.add(first);
      addMissing(cell, results);
      found = true;
    }
    // What is cleared after the end stays cleared.
    if (liveRun(first) === null) forget(panel, cell.id, runId);
  }
  return { success: found };
}

/** What is drawn as cards stays drawn: then only the document changes. */
function put({ outputs, sharedModel }: ICodeCellModel, index: number, output: IOutput): void {
  const before = sharedModel.getOutputs()[index];
  if (liveRun(before) === liveRun(output) && htmlOf(before) === htmlOf(output)) return;
  const drawn = liveRun(outputs.get(index)?.toJSON());
  if (drawn !== null && drawn === liveRun(output))
    (sharedModel as YCodeCell).updateOutputs(index, index + 1, [output], "silent-change");
  else outputs.set(index, output);
}

function addMissing({ outputs }: ICodeCellModel, results: readonly IOutput[]): void {
  const known = new Set(outputs.toJSON().map(markOf));
  for (const result of results) if (!known.has(markOf(result))) outputs.add(result);
}

function markOf(output: IOutput): string {
  const metadata = output["metadata"] as Record<string, unknown> | undefined;
  return JSON.stringify(metadata?.[RESULT] ?? null);
}

function liveRun(output: unknown): string | null {
  const view = dataOf(output)[RUN_VIEW] as { readonly run_id?: unknown } | undefined;
  return typeof view?.run_id === "string" ? view.run_id : null;
}

/** A run that is tried again has a record already. */
function recordedRun(output: unknown): string | null {
  return RECORD.exec(htmlOf(output))?.[1] ?? null;
}

function htmlOf(output: unknown): string {
  const html = dataOf(output)["text/html"];
  return Array.isArray(html) ? html.join("") : String(html ?? "");
}

function dataOf(output: unknown): Readonly<Record<string, unknown>> {
  return (output as { readonly data?: Record<string, unknown> } | undefined)?.data ?? {};
}

function codeCells(models: Iterable<{ readonly type: string }>): ICodeCellModel[] {
  return [...models].filter(isCode);
}

function isCode(model: { readonly type: string }): model is ICodeCellModel {
  return model.type === "code";
}

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
