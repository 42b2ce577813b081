/** The row of buttons on a waiting call, and what stands there once one was pressed. */
import type { JSX } from "preact";
import type { PendingDecision } from "../channel/decisions";
import { Button } from "../ui/button";
import type { CardProps } from "./card";
import { useActions } from "../run/context";
import { mayAlwaysAllow } from "./allow";
import { KernelBusyNote, useHeldBack } from "../run/kernelBusy";
import { Icon } from "../ui/icon";
import { usePageId } from "../ui/ids";

export function DecisionRow({ call, current, panel, off, gone, guarded, several }: CardProps): JSX.Element {
  const actions = useActions();
  const id = usePageId();
  const offBecause = off ? id : guarded ? "" : undefined;
  const common = { offBecause };
  if (gone)
    return (
      <div class="ak-actions">
        <span class="ak-note">Nothing ran, and nothing will.</span>
      </div>
    );
  return (
    <div class="ak-actions" data-guarded={guarded ? "" : undefined}>
      <Button
        name="Approve"
        shortcut="A Control+Enter"
        hint="A"
        look={current && panel === "none" ? "primary" : "plain"}
        {...common}
        onPress={() => actions.decide(call, { kind: "approve" })}
      />
      <Button name="Deny" shortcut="D" hint="D" {...common} onPress={() => actions.openPanel(call, "reason")} />
      <Button
        name="Edit"
        shortcut="E"
        hint="E"
        look="quiet"
        {...common}
        onPress={() => actions.openPanel(call, "edit")}
      />
      {mayAlwaysAllow(call) && (
        <Button
          name="Always allow"
          after="…"
          shortcut="L"
          hint="L"
          look="quiet"
          expanded={panel === "allow"}
          {...common}
          onPress={() => actions.openPanel(call, panel === "allow" ? "none" : "allow")}
        />
      )}
      {!off && <KernelBusyNote />}
      {off ? (
        <span class="ak-note" id={id}>
          Off until the connection is back.
        </span>
      ) : (
        current &&
        panel === "none" && (
          <span class="ak-note">
            {several ? "Starts as soon as you approve it." : "Approves exactly what is shown."}
          </span>
        )
      )}
    </div>
  );
}

export function SentRow({ pending }: { pending: PendingDecision }): JSX.Element {
  const actions = useActions();
  const choice = pending.command.approved ? "Approve" : "Deny";
  const heldBack = useHeldBack() && pending.status === "sent";
  return (
    <div class="ak-actions">
      {heldBack && <Icon name="clock" tone="ak-calm" />}
      <span role={heldBack ? "status" : undefined}>
        You chose <b>{choice}</b>.{pending.status === "queued" && " It is sent when the connection is back."}
        {heldBack && " The kernel takes it when the running cell ends."}
      </span>
      {pending.status === "queued" && (
        <span class="ak-right">
          <Button name="Take back" onPress={() => actions.takeBack(pending.command.approval_id)} />
        </span>
      )}
    </div>
  );
}
