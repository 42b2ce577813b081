/** Tells cards whether the cells that they are about still have the source that the model has seen. */
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import { WATCH_CELL, type WatchCell } from "../../src/ui/watchCell";
import { placeOf } from "./insert";

/** Answers the cards of all notebooks in the page. */
export function answerWatches(tracker: INotebookTracker): void {
  document.addEventListener(WATCH_CELL, (event) => {
    const detail = event instanceof CustomEvent ? (event.detail as WatchCell) : null;
    const panel = event.target instanceof Element ? placeOf(tracker, event.target)?.panel : undefined;
    if (detail !== null && panel !== undefined) watch(panel, detail);
  });
}

function watch(panel: NotebookPanel, { cellId, digest, onState, signal }: WatchCell): void {
  const model = panel.content.model;
  let last: string | null | undefined;
  const look = (): void => {
    const cells = Array.from(model?.cells ?? []).filter((cell) => cell.id === cellId);
    const source = cells.length === 1 ? (cells[0]?.sharedModel.getSource() ?? null) : null;
    if (source === last) return;
    last = source;
    void isSource(source, digest).then((isIt) => {
      if (!signal.aborted && source === last) onState(!isIt);
    });
  };
  model?.contentChanged.connect(look);
  signal.addEventListener("abort", () => model?.contentChanged.disconnect(look));
  look();
}

/** Pages without TLS, other than those of this machine, can't compute digests: their cards do not tell. The server does,
 * when the call is approved. */
async function isSource(source: string | null, digest: string): Promise<boolean> {
  if (source === null) return false;
  if (!isSecureContext) return true;
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(source));
  return [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("") === digest;
}
