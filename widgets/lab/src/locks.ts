/** Cells that may not be edited or deleted. */
import type { ICellModel } from "@jupyterlab/cells";
import type { CellState } from "../../src/protocol";

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
