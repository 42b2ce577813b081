/** Insert below as a cell: the code of a call, for the notebook. Where no extension would do it, it is not there. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { canInsertCells, insertCells } from "../ui/makeCells";

export function InsertBelow({ code }: { code: string }): JSX.Element | null {
  const [failed, fail] = useState(false);
  if (code.trim() === "" || !canInsertCells()) return null;
  return (
    <>
      <button type="button" class="ak-copy" onClick={(event) => fail(!insertCells(event.currentTarget, [code]))}>
        Insert below as a cell
      </button>
      {failed && (
        <div class="ak-line ak-note" role="alert">
          There is no cell around this output.
        </div>
      )}
    </>
  );
}
