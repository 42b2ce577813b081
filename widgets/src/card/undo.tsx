/** Below what a call wrote: who allowed it, and the way back while there is one. */
import type { JSX } from "preact";
import { ON_CELLS } from "../text/arguments";
import { wayBack } from "../text/undo";
import { Button, PressedButton } from "../ui/button";
import { useRun, type CallSignals } from "./context";
import { Icon } from "../ui/icon";
import { decidedBy } from "./statusLine";

export function UndoRow({ card }: { card: CallSignals }): JSX.Element | null {
  const run = useRun();
  const call = card.call.value;
  const undo = card.undo.value;
  const by = call.preview?.kind === "diff" ? decidedBy(call) : null;
  if (undo === "no" && by === null) return null;
  return (
    <div class="ak-actions">
      {undo === "offered" && <Button name="Undo" small icon={<Icon name="undo" />} onPress={() => run.undo(card)} />}
      {undo === "offered" && <span class="ak-note ak-beside">{wayBack(call.name, call.undo)}</span>}
      {run.store.undoesAll.value === card.id && <Button name="Undo this run" small onPress={() => run.undoAll()} />}
      {undo === "asked" && <PressedButton name={call.undone ? "Redoing…" : "Undoing…"} />}
      {(undo === "redo" || undo === "done") && (
        <>
          <span>
            <b>Undone.</b> The {ON_CELLS.includes(call.name) ? "cell" : "file"} is as it was before. The model is told.
          </span>
          {undo === "redo" && <Button name="Redo" small onPress={() => run.undo(card)} />}
        </>
      )}
      {by !== null && <span class="ak-note">{by}</span>}
    </div>
  );
}
