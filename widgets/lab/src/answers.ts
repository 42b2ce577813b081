/** Answers what cards and records ask of the notebook around them by events (`ui/events`): cells of code below theirs, their
 * prompt once more in a new conversation, completions by the kernel, the active cell, and whether a cell has changed. Any
 * script in the page may send such an event. */
import { CodeCell } from "@jupyterlab/cells";
import { type INotebookTracker, type Notebook, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";
import {
  BEGIN_CONVERSATION,
  type BeginConversation,
  COMPLETE,
  type Complete,
  type Completions,
  INSERT_CELLS,
  type InsertCells,
  NEW_CONVERSATION,
  WATCH_CELL,
  type WatchCell,
} from "../../src/ui/events";
import { ACTIVATE_CELL } from "../../src/ui/notebook";
import { watchCell } from "./watchedCells";

const MOST_CELLS = 1_000;
const MOST_CHARACTERS = 2_000_000;
const MOST_COMPLETED = 200_000;
const MOST_OPTIONS = 500;
/** The first answer of a kernel takes it some. */
const COMPLETED_WITHIN_MS = 10_000;

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

/** Answers in all notebooks in the page. */
export function answersCards(tracker: INotebookTracker): void {
  on(tracker, INSERT_CELLS, (detail: Partial<InsertCells>, place) => {
    const cells = detail.cells ?? null;
    if (!Array.isArray(cells) || cells.length > MOST_CELLS || !cells.every((cell) => typeof cell === "string"))
      return false;
    if (cells.reduce((sum, cell) => sum + cell.length, 0) > MOST_CHARACTERS) return false;
    return cells.length === 0 || (place !== null && insertBelow(place.panel.content, place.index, cells));
  });
  on(tracker, BEGIN_CONVERSATION, ({ cellId }: Partial<BeginConversation>, place) => {
    if (cellId === undefined) return false;
    return cellId === null || (place !== null && runInNewConversation(place, cellId));
  });
  on(tracker, COMPLETE, (detail: Partial<Complete> | null, place) => {
    const kernel = place?.panel.sessionContext.session?.kernel ?? null;
    if (kernel !== null) complete(kernel, detail ?? {});
    return kernel !== null;
  });
  on(tracker, ACTIVATE_CELL, ({ cell }: { cell?: unknown }, place) => {
    // A windowed notebook may have taken it from the page: no focus can make it active.
    const index = place?.panel.content.widgets.findIndex(({ node }) => node === cell) ?? -1;
    if (place !== null && index >= 0) place.panel.content.activeCellIndex = index;
    return false;
  });
  on(tracker, WATCH_CELL, (detail: WatchCell, place) => {
    const cells = place?.panel.content.model;
    if (cells) watchCell(cells, detail);
    return false;
  });
}

/** `answer` says whether it did what was asked. */
function on<T>(tracker: INotebookTracker, event: string, answer: (detail: T, place: Place | null) => boolean): void {
  document.addEventListener(event, (asked) => {
    const place = asked.target instanceof Element ? placeOf(tracker, asked.target) : null;
    if (asked instanceof CustomEvent && answer(asked.detail as T, place)) asked.preventDefault();
  });
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

/** Copies of a notebook have the same cells' ids: it is the cell of the notebook around the output. */
function runInNewConversation({ panel, index: around }: Place, cellId: string): boolean {
  const { sessionContext, content } = panel;
  const cell = content.widgets.find((one, index) =>
    cellId === "" ? index === around : one.model.sharedModel.getId() === cellId,
  );
  if (!(cell instanceof CodeCell)) return false;
  if (sessionContext.isTerminating || sessionContext.pendingInput) return false;
  // It fails where the kernel goes away meanwhile, which the notebook shows.
  void startConversation(panel, cell).catch(() => undefined);
  return true;
}

async function startConversation({ sessionContext, content }: NotebookPanel, cell: CodeCell): Promise<void> {
  // A page hears late of a kernel that went away with its server; a cell that is run in it loses its outputs.
  if (sessionContext.session?.kernel?.connectionStatus !== "connected")
    await sessionContext.sessionManager.refreshRunning();
  // A kernel is started, as for any cell; it knows no conversation.
  if (sessionContext.hasNoKernel || sessionContext.session?.kernel?.status === "dead") {
    await NotebookActions.runCells(content, [cell], sessionContext);
    return;
  }
  const metadata = { [NEW_CONVERSATION]: true, recordTiming: content.notebookConfig.recordTiming };
  await CodeCell.execute(cell, sessionContext, metadata);
}

function complete(kernel: Kernel.IKernelConnection, { code, position, answer }: Partial<Complete>): void {
  if (typeof code !== "string" || typeof position !== "number" || typeof answer !== "function") return;
  if (code.length > MOST_COMPLETED) return;
  const late = setTimeout(() => answer(null), COMPLETED_WITHIN_MS);
  void completionsOf(kernel, code, position)
    .catch(() => null)
    .then((found) => {
      clearTimeout(late);
      answer(found);
    });
}

async function completionsOf(
  kernel: Kernel.IKernelConnection,
  code: string,
  position: number,
): Promise<Completions | null> {
  // Kernels count code points.
  const before = [...code.slice(0, position)].length;
  const { content } = await kernel.requestComplete({ code, cursor_pos: before });
  if (content.status !== "ok") return null;
  const points = [...code];
  const unitsOf = (count: number): number => points.slice(0, count).join("").length;
  const types = typesOf(content.metadata["_jupyter_types_experimental"]);
  return {
    from: unitsOf(content.cursor_start),
    to: unitsOf(content.cursor_end),
    options: content.matches.slice(0, MOST_OPTIONS).map((label, index) => {
      const type = types[index];
      return type === undefined ? { label } : { label, type };
    }),
  };
}

function typesOf(listed: unknown): (string | undefined)[] {
  if (!Array.isArray(listed)) return [];
  return listed.map((one: { type?: unknown } | null) => (typeof one?.type === "string" ? one.type : undefined));
}
