/** What a key does on a card: the same as the button that it stands for. */
import type { CardCommand } from "../keyboard";
import { callsInOrder, waitingCalls, type Call } from "../state";
import { mayAlwaysAllow } from "./allow";
import type { Panel } from "./context";
import type { RunDesk } from "./desk";

export class Shortcuts {
  constructor(private readonly desk: RunDesk) {}

  /** True where the key was meant for the card. */
  obey(command: CardCommand, call: Call): boolean {
    const waits = call.state === "awaiting_approval" && this.desk.pendingOf(call) === null && !this.desk.off;
    const panel = this.desk.panelOf(call.id);
    switch (command.kind) {
      case "next":
      case "previous":
        return this.move(call, command.kind === "next" ? 1 : -1);
      case "choose":
        return this.choose(call, command.number);
      case "back":
        this.desk.openPanel(call, "none");
        return true;
      case "send":
        return this.sendPanel(call, panel, waits);
      case "approve-all":
      case "deny-all":
        return this.answerAll(command.kind === "approve-all");
      case "approve":
        if (waits && panel !== "edit") this.desk.decide(call, { kind: "approve" });
        return waits;
      case "deny":
        if (waits && panel === "reason") this.sendPanel(call, panel, waits);
        else if (waits && !this.desk.guarded) this.desk.openPanel(call, "reason");
        return waits;
      case "edit":
      case "allow":
        if (command.kind === "allow" && !mayAlwaysAllow(call)) return false;
        if (waits && !this.desk.guarded) this.desk.openPanel(call, command.kind);
        return waits;
    }
  }

  private sendPanel(call: Call, panel: Panel, waits: boolean): boolean {
    if (call.name === "ask_user" && call.state === "executing") {
      this.desk.element(call.id)?.querySelector<HTMLElement>(".ak-primary")?.click();
      return true;
    }
    if (!waits) return false;
    if (panel === "reason") this.desk.decide(call, { kind: "deny", reason: this.desk.draftOf(call.id).reason.text });
    else if (panel === "edit") this.desk.decide(call, this.desk.draftOf(call.id).choice());
    return panel === "reason" || panel === "edit";
  }

  private answerAll(approved: boolean): boolean {
    const calls = this.desk.askable(waitingCalls(this.desk.state));
    if (calls.length < 2) return false;
    this.desk.decideAll(calls, approved);
    return true;
  }

  private move(call: Call, by: 1 | -1): boolean {
    const cards = callsInOrder(this.desk.state);
    const next = cards[cards.findIndex((one) => one.id === call.id) + by];
    if (next !== undefined) this.desk.element(next.id)?.focus();
    return true;
  }

  private choose(call: Call, number: number): boolean {
    const choice = this.desk.element(call.id)?.querySelector<HTMLElement>(`[data-choice="${number}"]`);
    choice?.click();
    return choice !== null && choice !== undefined;
  }
}
