/** Below what a call wrote: who allowed it, and the way back while there is one. */
import type { JSX } from "preact";
import type { Call } from "../state";
import { timeOfDay } from "../text/format";
import { Button } from "../ui/button";
import { useActions, type Undo } from "../run/context";
import { Icon } from "../ui/icon";
import { decidedBy } from "./statusLine";

export function UndoRow({ call, undo }: { call: Call; undo: Undo }): JSX.Element | null {
  const actions = useActions();
  const by = call.preview?.kind === "diff" ? decidedBy(call) : null;
  if (undo === "no" && by === null) return null;
  return (
    <div class="ak-actions">
      {undo === "offered" && (
        <Button name="Undo" small icon={<Icon name="undo" />} onPress={() => actions.undo(call)} />
      )}
      {undo === "offered" && (
        <span class="ak-note ak-beside">
          {call.undo === "" ? "Removes the file again." : `Puts back the file of ${timeOfDay(call.undo ?? "")}.`}
        </span>
      )}
      {undo === "asked" && (
        <button type="button" class="ak-btn ak-small" aria-disabled="true">
          Undoing…
        </button>
      )}
      {undo === "done" && (
        <span>
          <b>Undone.</b> The file is as it was before. The model is told.
        </span>
      )}
      {by !== null && <span class="ak-note">{by}</span>}
    </div>
  );
}
