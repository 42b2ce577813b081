/** Which cell a prompt continues from, and the press that has it begin a new conversation instead. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { filled } from "../text/words";
import { SHARED } from "../text/words.gen";
import { beginConversation, canBeginConversation } from "./newConversation";
import type { RunView } from "../protocol";

const CONTINUES =
  "The model is told what was said before. %agent new, or --new on the prompt’s own line, begins a new conversation.";
const ANEW = "Start this prompt again in a new conversation";

export function Continues({ run, gone }: { run: RunView; gone: boolean }): JSX.Element | null {
  const [failed, fail] = useState(false);
  const cell = run.cell_id;
  if (typeof run.continues !== "number") return null;
  return (
    <>
      <span class="ak-continues" title={CONTINUES}>
        {filled(SHARED.continues, { cell: run.continues })}
      </span>
      {!gone && typeof cell === "string" && canBeginConversation() && (
        <button
          type="button"
          class="ak-btn ak-small"
          title={ANEW}
          onClick={(event) => fail(!beginConversation(event.currentTarget, cell))}
        >
          New conversation
        </button>
      )}
      {failed && (
        <span class="ak-note" role="alert">
          Its cell can’t be run from here now. Put --new on the prompt’s own line, and run it again.
        </span>
      )}
    </>
  );
}
