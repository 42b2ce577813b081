/** Insert below as a cell: the code of a call, for the notebook. Where no extension would do it, it is not there. */
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { canInsertCells, insertCells } from "../cells";
import { Button } from "./button";

export function InsertBelow({ code }: { code: string }): JSX.Element | null {
  const place = useRef<HTMLDivElement>(null);
  const [failed, fail] = useState(false);
  if (code.trim() === "" || !canInsertCells()) return null;
  const press = (): void => fail(place.current !== null && !insertCells(place.current, [code]));
  return (
    <div class="ak-code-actions" ref={place}>
      {failed && <span class="ak-note" role="alert">There is no cell around this output.</span>}
      <Button name="Insert below as a cell" look="quiet" small onPress={press} />
    </div>
  );
}
