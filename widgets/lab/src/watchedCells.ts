/** Watches a cell for a card: whether its source is the one that the card is about, and it may still be changed. */
import type { ICellModel } from "@jupyterlab/cells";
import type { INotebookModel } from "@jupyterlab/notebook";
import type { CellState } from "../../src/protocol";
import type { WatchCell } from "../../src/ui/events";

type Lock = NonNullable<CellState["locks"]>[number];

const LOCKS: readonly Lock[] = ["editable", "deletable"];

/** The fields of a cell's metadata that lock it. */
export function locksOf(model: ICellModel): Lock[] {
  return LOCKS.filter((key) => model.getMetadata(key) === false);
}

export function isLocked(model: ICellModel, action: "edit" | "delete"): boolean {
  const locks = locksOf(model);
  return action === "delete" ? locks.length > 0 : locks.includes("editable");
}

/** Not of all cells at each key: a notebook may have thousands. */
export function watchCell(
  { cells, contentChanged }: Pick<INotebookModel, "cells" | "contentChanged">,
  { cellId, digest, change, onState, signal }: WatchCell,
): void {
  let named: readonly ICellModel[] = [];
  let last: string | null | undefined;
  let wasLocked = false;
  const look = (): void => {
    const [cell] = named.length === 1 ? named : [];
    const source = cell?.sharedModel.getSource() ?? null;
    const locked = cell !== undefined && change !== null && isLocked(cell, change);
    if (source === last && locked === wasLocked) return;
    [last, wasLocked] = [source, locked];
    void isSource(source, digest).then((isIt) => {
      if (!signal.aborted && source === last && locked === wasLocked)
        onState(!isIt ? "changed" : locked ? "locked" : null);
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
