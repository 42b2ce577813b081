/** Answers what cards and records ask of the notebook around them by events (`ui/events`): cells of code below theirs, their
 * prompt once more in a new conversation, completions by the kernel, the active cell, and whether a cell has changed. */
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

const MOST_OPTIONS = 500;

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
  on(
    tracker,
    INSERT_CELLS,
    ({ cells }: InsertCells, place) =>
      cells.length === 0 || (place !== null && insertBelow(place.panel.content, place.index, cells)),
  );
  on(
    tracker,
    BEGIN_CONVERSATION,
    ({ cellId }: BeginConversation, place) =>
      cellId === null || (place !== null && runInNewConversation(place, cellId)),
  );
  on(tracker, COMPLETE, (detail: Complete | null, place) => {
    const kernel = place?.panel.sessionContext.session?.kernel ?? null;
    if (kernel !== null && detail !== null)
      void completions(kernel, detail)
        .catch(() => null)
        .then(detail.answer);
    return kernel !== null;
  });
  on(tracker, ACTIVATE_CELL, ({ cell }: { cell: Element }, place) => {
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

async function completions(
  kernel: Kernel.IKernelConnection,
  { code, position }: Complete,
): Promise<Completions | null> {
  // Kernels count code points.
  const before = [...code.slice(0, position)].length;
  const { content } = await kernel.requestComplete({ code, cursor_pos: before });
  if (content.status !== "ok") return null;
  const points = [...code];
  const unitsOf = (count: number): number => points.slice(0, count).join("").length;
  return {
    from: unitsOf(content.cursor_start),
    to: unitsOf(content.cursor_end),
    options: content.matches.slice(0, MOST_OPTIONS).map((label) => ({ label })),
  };
}
