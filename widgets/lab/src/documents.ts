/** Puts how a run stands, or its record, into the document of a notebook: so it is what is saved, whoever saves it. */
import type { YCodeCell } from "@jupyter/ydoc";
import type { ICodeCellModel } from "@jupyterlab/cells";
import type { IOutput } from "@jupyterlab/nbformat";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { PutRun } from "../../src/protocol";
import type { Answer } from "./cells";

/** Of an output: what names the run that it shows. */
export const RUN_VIEW = "application/vnd.agent-kernel.run+json";
/** In an output's metadata: the open run that it shows, by which the server finds it when the notebook is saved. */
export const OPEN_RUN = "agent_kernel_open_run";
/** In an output's metadata: of the results of a run. */
const RESULT = "agent_kernel";
const RECORD = /^.{0,200}data-agent-record="([^"]*)"/s;

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

export function putRun({ content }: NotebookPanel, { run_id: runId, outputs, elsewhere }: PutRun): Answer {
  const [first, ...results] = outputs as unknown as IOutput[];
  let found = false;
  for (const cell of codeCells(content.model?.cells ?? [])) {
    cell.sharedModel.getOutputs().forEach((output, index) => {
      if (first === undefined || !isOfRun(output, runId)) return;
      put(cell, index, found ? (elsewhere as unknown as IOutput) : first);
      if (!found) addMissing(cell, results);
      found = true;
    });
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
  return [...models].filter((model): model is ICodeCellModel => model.type === "code");
}
