/** Runs a cell again whose prompt is to begin a new conversation: the request to the kernel says so. */
import { CodeCell } from "@jupyterlab/cells";
import { type INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import { BEGIN_CONVERSATION, NEW_CONVERSATION, type BeginConversation } from "../../src/run/newConversation";
import { placeOf } from "./insert";

/** Answers cards of all notebooks in the page. */
export function answerBeginnings(tracker: INotebookTracker): void {
  document.addEventListener(BEGIN_CONVERSATION, (event) => {
    const cellId =
      event instanceof CustomEvent ? (event.detail as Partial<BeginConversation> | null)?.cellId : undefined;
    if (cellId === undefined || (cellId !== null && !runInNewConversation(tracker, event.target, cellId))) return;
    event.preventDefault();
  });
}

/** Copies of a notebook have the same cells' ids: it is the cell of the notebook around the output. */
function runInNewConversation(tracker: INotebookTracker, output: EventTarget | null, cellId: string): boolean {
  const place = output instanceof Element ? placeOf(tracker, output) : null;
  const panel = place?.panel;
  const cell = panel?.content.widgets.find((one, index) =>
    cellId === "" ? index === place?.index : one.model.sharedModel.getId() === cellId,
  );
  if (panel === undefined || !(cell instanceof CodeCell)) return false;
  const { sessionContext, content } = panel;
  if (sessionContext.isTerminating || sessionContext.pendingInput) return false;
  // A kernel is started, as for any cell; it knows no conversation.
  if (sessionContext.hasNoKernel || sessionContext.session?.kernel?.status === "dead") {
    void NotebookActions.runCells(content, [cell], sessionContext).catch(() => undefined);
    return true;
  }
  const metadata = { [NEW_CONVERSATION]: true, recordTiming: content.notebookConfig.recordTiming };
  // It fails where the kernel goes away meanwhile, which the notebook shows.
  void CodeCell.execute(cell, sessionContext, metadata).catch(() => undefined);
  return true;
}
