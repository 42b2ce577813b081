/** The row of buttons on a waiting call, and what stands there once one was pressed. */
import type { JSX } from "preact";
import { SHARED } from "../text/words.gen";
import { Button } from "../ui/button";
import { Icon } from "../ui/icon";
import { usePageId } from "../ui/ids";
import { ACTIONS } from "./actions";
import { maySaveRule, type RulePanel } from "./allow";
import { useRun, type CallSignals } from "./context";
import { useHeldBack } from "./kernelBusy";

export function DecisionRow({ card }: { card: CallSignals }): JSX.Element {
  const run = useRun();
  const id = usePageId();
  const { off, gone, guarded, several } = run.store;
  if (gone.value)
    return (
      <div class="ak-actions">
        <span class="ak-note">Nothing ran, and nothing will.</span>
      </div>
    );
  const panel = card.panel.value;
  const first = card.current.value && panel === "none";
  const common = { offBecause: off.value ? id : guarded.value ? "" : undefined };
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
    <div class="ak-actions" data-guarded={guarded.value ? "" : undefined}>
      <Button
        {...ACTIONS.approve}
        {...common}
        look={first ? "primary" : "plain"}
        onPress={() => run.decide(card, { kind: "approve" })}
      />
      {ruleButton("run")}
      <Button {...ACTIONS.deny} {...common} onPress={() => run.openPanel(card, "reason")} />
      {card.call.value.name !== "start_mcp_servers" && (
        // Which is for a folder's file as it is.
        <Button {...ACTIONS.edit} {...common} look="quiet" onPress={() => run.openPanel(card, "edit")} />
      )}
      {ruleButton("allow")}
      {off.value ? (
        <span class="ak-note" id={id}>
          Off until the connection is back.
        </span>
      ) : (
        first && (
          <span class="ak-note">{several.value ? "Starts as soon as you approve it." : SHARED.card.exactly}</span>
        )
      )}
    </div>
  );
}

interface SentProps {
  choice: string;
  /** It has not left the page. */
  queued: boolean;
  onTakeBack: () => void;
}

export function SentRow({ choice, queued, onTakeBack }: SentProps): JSX.Element {
  const heldBack = useHeldBack() && !queued;
  return (
    <div class="ak-actions">
      {heldBack && <Icon name="clock" tone="ak-calm" />}
      <span role={heldBack ? "status" : undefined}>
        You chose <b>{choice}</b>.{queued && " It is sent when the connection is back."}
        {heldBack && " The kernel takes it when the running cell ends."}
      </span>
      {queued && (
        <span class="ak-right">
          <Button name="Take back" onPress={onTakeBack} />
        </span>
      )}
    </div>
  );
}
