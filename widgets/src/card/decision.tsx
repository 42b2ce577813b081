/** The row of buttons on a waiting call, what stands there once one was pressed, and the field for a reason. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { SentCommand } from "../channel/channel";
import { SHARED } from "../text/words.gen";
import { Button, usePageId } from "../ui/parts";
import { ACTIONS } from "./looks";
import { type RulePanel, maySaveRule } from "./allow";
import type { CallModel } from "../store/run";
import { useRun } from "./context";

export function DecisionRow({ card }: { card: CallModel }): JSX.Element {
  const run = useRun();
  const id = usePageId();
  const { off, gone, several } = run.store;
  if (gone.value)
    return (
      <div class="ak-actions">
        <span class="ak-note">Nothing ran, and nothing will.</span>
      </div>
    );
  const panel = card.panel.value;
  const first = card.current.value && panel === "none";
  const common = { offBecause: off.value ? id : undefined };
  const ruleButton = (opens: RulePanel): JSX.Element | null =>
    maySaveRule(card.call.value, opens) ? (
      <Button
        {...(opens === "run" ? ACTIONS.dontAsk : ACTIONS.allow)}
        {...common}
        look="quiet"
        expanded={panel === opens}
        onPress={() => run.openPanel(card, panel === opens ? "none" : opens)}
      />
    ) : null;
  return (
    <div class="ak-actions ak-decide">
      <Button
        {...ACTIONS.approve}
        {...common}
        look={first ? "primary" : "plain"}
        onPress={() => run.decide(card, { approved: true })}
      />
      {ruleButton("run")}
      <Button {...ACTIONS.deny} {...common} onPress={() => run.openPanel(card, "reason")} />
      {card.call.value.tool_name !== "start_mcp_servers" && (
        // Which is for a folder's file as it is.
        <Button {...ACTIONS.edit} {...common} look="quiet" onPress={() => run.openPanel(card, "edit")} />
      )}
      {ruleButton("allow")}
      {off.value ? (
        <span class="ak-note" id={id}>
          Off until the connection is back.
        </span>
      ) : (
        // Each card keeps its room: what moved under a pointer that is pressed would lose the click.
        panel === "none" && (
          <span class={first ? "ak-note" : "ak-note ak-room"} aria-hidden={first ? undefined : "true"}>
            {several.value ? "Starts as soon as you approve it." : SHARED.card.exactly}
          </span>
        )
      )}
    </div>
  );
}

export function SentRow({ choice, sent }: { choice: string; sent: SentCommand }): JSX.Element {
  const run = useRun();
  const queued = sent.status === "queued";
  return (
    <div class="ak-actions">
      <span>
        You chose <b>{choice}</b>.{queued && " It is sent when the connection is back."}
      </span>
      {queued && (
        <span class="ak-right">
          <Button name="Take back" onPress={() => run.takeBack(sent.id)} />
        </span>
      )}
    </div>
  );
}

export function ReasonPanel({ card, draft }: { card: CallModel; draft: { text: string } }): JSX.Element {
  const run = useRun();
  const field = useRef<HTMLTextAreaElement>(null);
  const id = usePageId();
  useLayoutEffect(() => field.current?.focus(), []);
  const deny = (): void => {
    const reason = draft.text.trim();
    run.decide(card, reason === "" ? { approved: false } : { approved: false, reason });
  };
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
        <Button {...ACTIONS.denyForReason} onPress={deny} />
        <Button {...ACTIONS.back} look="quiet" onPress={() => run.openPanel(card, "none")} />
      </div>
    </>
  );
}
