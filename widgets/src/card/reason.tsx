/** The field that Deny opens below a waiting call, for the reason, which the model reads. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { SHARED } from "../text/words.gen";
import { Button } from "../ui/button";
import { ACTIONS } from "./actions";
import { useRun, type CallSignals } from "./context";
import { usePageId } from "../ui/ids";

export function ReasonPanel({ card, draft }: { card: CallSignals; draft: { text: string } }): JSX.Element {
  const run = useRun();
  const field = useRef<HTMLTextAreaElement>(null);
  const id = usePageId();
  useLayoutEffect(() => field.current?.focus(), []);
  return (
    <>
      <div class="ak-panel">
        <label for={id}>{SHARED.card.reason}</label>{" "}
        <span class="ak-note" id={`${id}-hint`}>
          {SHARED.card.reasonNote}
        </span>
        <textarea
          id={id}
          ref={field}
          class="ak-field"
          rows={1}
          maxLength={10_000}
          data-enter="send"
          aria-describedby={`${id}-hint`}
          defaultValue={draft.text}
          onInput={(event) => (draft.text = event.currentTarget.value)}
        />
      </div>
      <div class="ak-actions">
        <Button {...ACTIONS.denyForReason} onPress={() => run.decide(card, { kind: "deny", reason: draft.text })} />
        <Button {...ACTIONS.back} look="quiet" onPress={() => run.openPanel(card, "none")} />
      </div>
    </>
  );
}
