/** Watches a cell for a card: whether its source is the one that the card is about. */
import type { ICellModel } from "@jupyterlab/cells";
import type { INotebookModel } from "@jupyterlab/notebook";
import type { WatchCell } from "../../src/ui/events";

/** Not of all cells at each key: a notebook may have thousands. */
export function watchCell(
  { cells, contentChanged }: Pick<INotebookModel, "cells" | "contentChanged">,
  { cellId, digest, onState, signal }: WatchCell,
): void {
  let named: readonly ICellModel[] = [];
  let last: string | null | undefined;
  const look = (): void => {
    const source = named.length === 1 ? (named[0]?.sharedModel.getSource() ?? null) : null;
    if (source === last) return;
    last = source;
    void isSource(source, digest).then((isIt) => {
      if (!signal.aborted && source === last) onState(!isIt);
    });
  };
  const find = (): void => {
    named = Array.from(cells).filter(({ id }) => id === cellId);
    look();
  };
  cells.changed.connect(find);
  contentChanged.connect(look);
  signal.addEventListener("abort", () => {
    cells.changed.disconnect(find);
    contentChanged.disconnect(look);
  });
  find();
}

/** Pages without TLS, other than those of this machine, can't compute digests: their cards do not tell. The server does,
 * when the call is approved. */
async function isSource(source: string | null, digest: string): Promise<boolean> {
  if (source === null) return false;
  if (!isSecureContext) return true;
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(source));
  return [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("") === digest;
}
