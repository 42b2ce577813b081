/** Puts how a run stands, or its record, into the document of a notebook: so it is what is saved, whoever saves it. */
import type { YCodeCell } from "@jupyter/ydoc";
import type { ICellModel, ICodeCellModel } from "@jupyterlab/cells";
import type { IOutput } from "@jupyterlab/nbformat";
import type { INotebookModel, INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { PutRun } from "../../src/protocol";
import type { Answer } from "./cells";

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
