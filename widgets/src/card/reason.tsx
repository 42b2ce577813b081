/** What Deny opens below a waiting call: the reason, which the model reads. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Call } from "../state";
import { Button } from "../ui/button";
import { useActions } from "../run/context";
import { usePageId } from "../ui/ids";

export function ReasonPanel({ call, draft }: { call: Call; draft: { text: string } }): JSX.Element {
  const actions = useActions();
  const field = useRef<HTMLTextAreaElement>(null);
  const id = usePageId();
  useLayoutEffect(() => field.current?.focus(), []);
  return (
    <>
      <div class="ak-panel">
        <label for={id}>Reason</label>{" "}
        <span class="ak-note" id={`${id}-hint`}>
          optional; the model reads it and goes on
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
        <Button
          name="Deny"
          shortcut="Enter"
          hint="Enter"
          onPress={() => actions.decide(call, { kind: "deny", reason: draft.text })}
        />
        <Button name="Back" shortcut="Escape" hint="Esc" look="quiet" onPress={() => actions.openPanel(call, "none")} />
      </div>
    </>
  );
}
