/** Reads, changes and runs cells of an open notebook for the server, by JupyterLab's shared models. What the model has
 * seen of a cell is compared and replaced in one go, so that nothing that the user types meanwhile is lost. */
import type { ICellModel, ICodeCellModel } from "@jupyterlab/cells";
import { type INotebookCellExecutor, type NotebookPanel, runCell } from "@jupyterlab/notebook";
import type { CellChange, CellState, PageAnswer, ReadCells, RunCell } from "../../src/protocol";
import { leftOut } from "../../src/text/format";
import { isLocked, locksOf } from "./watchedCells";

export type Answer = Omit<PageAnswer, "type" | "request_id">;
type Refusal = NonNullable<PageAnswer["refusal"]>;
type Output = Record<string, unknown>;

const MOST_OUTPUTS = 50;
const OUTPUT_CHARACTERS = 20_000;
const REMOVED_CHARACTERS = 5_000_000;
/** Of all cells in one answer. */
const ANSWER_CHARACTERS = 8_000_000;
const TEXTS = /^(text\/|application\/json$)/;

export function readCells(panel: NotebookPanel, ask: ReadCells): Answer {
  const { cell_ids: ids, first, count } = ask;
  const all = modelsOf(panel);
  const wanted = all.flatMap((model, index) =>
    (ids == null ? index >= first && index < first + count : isOneOf(ids, model)) ? [{ model, index }] : [],
  );
  let room = ANSWER_CHARACTERS;
  const cells: CellState[] = [];
  for (const { model, index } of wanted) {
    const state = stateOf(model, index);
    room -= JSON.stringify(state).length;
    if (room < 0 && cells.length > 0) break;
    cells.push(state);
  }
  // The user runs cells of a notebook that is read-only, too.
  return { cells, total: all.length, language: languageOf(panel), refuses: isReadOnly(panel) ? ["change"] : [] };
}

function isOneOf(ids: readonly (string | number)[], model: ICellModel): boolean {
  return (
    ids.includes(model.id) || (isCode(model) && model.executionCount !== null && ids.includes(model.executionCount))
  );
}

export function changeCell(panel: NotebookPanel, change: CellChange): Answer {
  const removed = change.action === "delete" ? wholeCell(panel, change.cell_id) : null;
  const refusal = isReadOnly(panel) ? "read_only" : applied(panel, change);
  return { ...readOne(panel, change.cell_id), refusal, removed };
}

/** In nbformat, with whether its outputs are trusted. */
function wholeCell(panel: NotebookPanel, id: string): Record<string, unknown> | null {
  const model = modelsOf(panel).find((one) => one.id === id);
  const cell = model?.sharedModel.toJSON();
  if (model === undefined || cell === undefined || JSON.stringify(cell).length > REMOVED_CHARACTERS) return null;
  return { ...cell, metadata: { ...cell.metadata, ...(isCode(model) && { trusted: model.trusted }) } };
}

/** Runs it as the user would, and leaves the user's place and focus where they are. */
export async function runOne(
  panel: NotebookPanel,
  ask: RunCell,
  executor: INotebookCellExecutor | null,
): Promise<Answer> {
  const found = find(panel, ask.cell_id, ask.expected);
  const refusal = typeof found === "string" ? found : whyNotRun(panel, found.model);
  const cell = typeof found === "string" ? undefined : panel.content.widgets[found.index];
  if (refusal !== null || cell === undefined || panel.content.model === null)
    return { ...readOne(panel, ask.cell_id), refusal: refusal ?? "gone" };
  const run = executor === null ? runCell : executor.runCell.bind(executor);
  let success = false;
  try {
    success = await run({
      cell,
      notebook: panel.content.model,
      notebookConfig: panel.content.notebookConfig,
      onCellExecuted: () => undefined,
      onCellExecutionScheduled: () => undefined,
      sessionContext: panel.sessionContext,
    });
  } catch {
    // The cell's own error, which is in its outputs.
  }
  return { ...readOne(panel, ask.cell_id), success };
}

function readOne(panel: NotebookPanel, id: string): Answer {
  return readCells(panel, { type: "read", cell_ids: [id], first: 0, count: 1 });
}

function whyNotRun({ sessionContext }: NotebookPanel, model: ICellModel): Refusal | null {
  if (model.type === "markdown") return null;
  if (!isCode(model)) return "kind";
  if (sessionContext.session?.kernel == null) return "no_kernel";
  return model.executionState === "running" || sessionContext.pendingInput ? "running" : null;
}

/** Changes it, or says why it may not be changed. */
function applied(panel: NotebookPanel, change: CellChange): Refusal | null {
  const notebook = panel.content.model?.sharedModel;
  if (notebook === undefined) return "closed";
  const { cell_id: id, source = "", cell_type: type = "code" } = change;
  const after = change.after ?? null;
  if (change.action === "insert") {
    if (modelsOf(panel).some((model) => model.id === id)) return null;
    const index = below(panel, after);
    if (typeof index === "string") return index;
    const added = { cell_type: type, id, source, metadata: type === "code" ? { trusted: true } : {} };
    notebook.insertCell(index, { ...added, ...change.cell });
    return null;
  }
  const found = find(panel, id, change.expected ?? "");
  if (typeof found === "string") return found;
  const { model, index } = found;
  switch (change.action) {
    case "edit":
      if (isLocked(model, "edit")) return "locked";
      model.sharedModel.setSource(source);
      return null;
    case "delete":
      if (isLocked(model, "delete")) return "locked";
      if (isCode(model) && model.executionState === "running") return "running";
      notebook.deleteCell(index);
      return null;
    case "move": {
      const to = below(panel, after);
      if (typeof to === "string") return to;
      panel.content.moveCell(index, index < to ? to - 1 : to);
      return null;
    }
  }
}

/** The index below a cell: `null` is the notebook's beginning, an empty id its end. */
function below(panel: NotebookPanel, after: string | null): number | Refusal {
  if (after === null) return 0;
  if (after === "") return modelsOf(panel).length;
  const found = find(panel, after, null);
  return typeof found === "string" ? found : found.index + 1;
}

/** The cell with this id, where there is one, and its source is the one that is expected. */
function find(
  panel: NotebookPanel,
  id: string,
  expected: string | null,
): { readonly model: ICellModel; readonly index: number } | Refusal {
  const found = modelsOf(panel).flatMap((model, index) => (model.id === id ? [{ model, index }] : []));
  const [one] = found;
  if (one === undefined) return "gone";
  if (found.length > 1) return "twice";
  return expected !== null && one.model.sharedModel.getSource() !== expected ? "changed" : one;
}

function modelsOf(panel: NotebookPanel): ICellModel[] {
  return Array.from(panel.content.model?.cells ?? []);
}

function isReadOnly({ content, context }: NotebookPanel): boolean {
  return content.model?.readOnly === true || context.contentsModel?.writable === false;
}

function languageOf({ content }: NotebookPanel): string {
  const info = content.model?.getMetadata("language_info") as { name?: unknown } | undefined;
  return typeof info?.name === "string" ? info.name : "python";
}

function isCode(model: ICellModel): model is ICodeCellModel {
  return model.type === "code";
}

function stateOf(model: ICellModel, index: number): CellState {
  const state = {
    cell_id: model.id,
    cell_type: model.type,
    index,
    source: model.sharedModel.getSource(),
    locks: locksOf(model),
  };
  if (!isCode(model)) return state;
  const outputs = model.sharedModel.getOutputs() as unknown as Output[];
  return {
    ...state,
    execution_count: model.executionCount ?? null,
    running: model.executionState === "running",
    changed: model.isDirty,
    outputs: outputs.slice(0, MOST_OUTPUTS).map(bounded),
    more_outputs: Math.max(0, outputs.length - MOST_OUTPUTS),
  };
}

/** Of bundles only the texts are sent. */
function bounded(output: Output): Output {
  const { output_type, name, text, ename, evalue, traceback, data } = output;
  if (output_type === "stream") return { output_type, name, text: cut(text) };
  if (output_type === "error") {
    const lines = Array.isArray(traceback) ? traceback.map(cut).slice(-40) : [];
    return { output_type, ename: cut(ename), evalue: cut(evalue), traceback: lines };
  }
  const bundle = typeof data === "object" && data !== null ? Object.entries(data) : [];
  const kept = bundle.map(([type, value]) => [type, TEXTS.test(type) ? cut(value) : ""]);
  return { output_type, data: Object.fromEntries(kept) as Output };
}

/** The end of a text says more than its beginning. */
function cut(value: unknown): string {
  const text = Array.isArray(value) ? value.join("") : typeof value === "string" ? value : JSON.stringify(value ?? "");
  const more = text.length - OUTPUT_CHARACTERS;
  return more <= 0 ? text : `… [${leftOut(0, more)} here]\n${text.slice(more)}`;
}
