/** What a key does on a card: the same as the button that it stands for. */
import type { CardCommand } from "../keyboard";
import { callsInOrder, waitingCalls, type Call } from "../state";
import { mayAlwaysAllow } from "./allow";
import type { Panel } from "./context";
import type { RunDesk } from "./desk";

export class Shortcuts {
  constructor(private readonly desk: RunDesk) {}

  /** True where the key was meant for what it was pressed on: a card, a pause, or the bar above several calls. */
  obey(command: CardCommand, target: Element): boolean {
    const id = target.closest("[data-tool-call-id]")?.getAttribute("data-tool-call-id") ?? null;
    const call = this.desk.callById(id);
    if (command.kind === "approve-all" || command.kind === "deny-all") {
      return (call !== undefined || target.closest(".ak-batch") !== null) && this.answerAll(command.kind === "approve-all");
    }
    const pauseId = target.closest("[data-pause-id]")?.getAttribute("data-pause-id") ?? null;
    if (pauseId !== null) return command.kind === "send" && this.sendForm(pauseId);
    return call !== undefined && this.obeyOn(call, command);
  }

  private obeyOn(call: Call, command: CardCommand): boolean {
    const waits = call.state === "awaiting_approval" && this.desk.pendingOf(call) === null && !this.desk.off;
    const panel = this.desk.panelOf(call.id);
    const buttonsShown = waits && (panel === "none" || panel === "allow");
    switch (command.kind) {
      case "next":
      case "previous":
        return this.move(call, command.kind === "next" ? 1 : -1);
      case "choose":
        this.desk.formOf(call.id)?.choose?.(command.number);
        return true;
      case "back":
        this.desk.openPanel(call, "none");
        return true;
      case "send":
        return this.send(call, panel, waits);
      case "approve":
        if (buttonsShown) this.desk.decide(call, { kind: "approve" });
        return true;
      case "deny":
        if (buttonsShown && !this.desk.guarded) this.desk.openPanel(call, "reason");
        return true;
      case "edit":
        if (buttonsShown && !this.desk.guarded) this.desk.openPanel(call, "edit");
        return true;
      case "allow":
        if (buttonsShown && !this.desk.guarded && mayAlwaysAllow(call)) this.desk.openPanel(call, "allow");
        return true;
      case "approve-all":
      case "deny-all":
        return false;
    }
  }

  /** What waits for an answer, or for the answer to arrive, is not run again by the key that answers. */
  private send(call: Call, panel: Panel, waits: boolean): boolean {
    if (call.name === "ask_user" && call.state === "executing") return this.sendForm(call.id);
    if (!waits) return call.state === "awaiting_approval";
    switch (panel) {
      case "none":
        this.desk.decide(call, { kind: "approve" });
        return true;
      case "reason":
        this.desk.decide(call, { kind: "deny", reason: this.desk.draftOf(call.id).reason.text });
        return true;
      case "edit":
        this.desk.decide(call, this.desk.draftOf(call.id).choice());
        return true;
      case "allow":
        return this.sendForm(call.id);
    }
  }

  private sendForm(id: string): boolean {
    this.desk.formOf(id)?.send();
    return true;
  }

  private answerAll(approved: boolean): boolean {
    const calls = this.desk.askable(waitingCalls(this.desk.state));
    if (calls.length > 1) this.desk.decideAll(calls, approved);
    return true;
  }

  private move(call: Call, by: 1 | -1): boolean {
    const cards = callsInOrder(this.desk.state);
    const next = cards[cards.findIndex((one) => one.id === call.id) + by];
    if (next !== undefined) this.desk.element(next.id)?.focus();
    return true;
  }
}
