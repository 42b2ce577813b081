/** What a key does on a card: the same as the button that it stands for. */
import type { CardCommand } from "./keyboard";
import { callsInOrder, waitingCalls, type Call } from "../state";
import { mayAlwaysAllow } from "../card/allow";
import type { Panel } from "./context";
import type { RunController } from "./controller";

export class Shortcuts {
  constructor(private readonly controller: RunController) {}

  /** True where the key was meant for what it was pressed on: a card, a pause, or the bar above several calls. */
  obey(command: CardCommand, target: Element): boolean {
    const id = target.closest("[data-tool-call-id]")?.getAttribute("data-tool-call-id") ?? null;
    const call = this.controller.callById(id);
    if (command.kind === "approve-all" || command.kind === "deny-all") {
      return (
        (call !== undefined || target.closest(".ak-batch") !== null) && this.answerAll(command.kind === "approve-all")
      );
    }
    const pauseId = target.closest("[data-pause-id]")?.getAttribute("data-pause-id") ?? null;
    if (pauseId !== null) return command.kind === "send" && this.sendForm(pauseId);
    return call !== undefined && this.obeyOn(call, command);
  }

  private obeyOn(call: Call, command: CardCommand): boolean {
    const waits =
      call.state === "awaiting_approval" && this.controller.pendingOf(call) === null && !this.controller.off;
    const panel = this.controller.panelOf(call.id);
    const buttonsShown = waits && (panel === "none" || panel === "allow");
    switch (command.kind) {
      case "next":
      case "previous":
        return this.move(call, command.kind === "next" ? 1 : -1);
      case "choose":
        this.controller.formOf(call.id)?.choose?.(command.number);
        return true;
      case "back":
        this.controller.openPanel(call, "none");
        return true;
      case "send":
        return this.send(call, panel, waits);
      case "approve":
        if (buttonsShown) this.controller.decide(call, { kind: "approve" });
        return true;
      case "deny":
        if (buttonsShown && !this.controller.guarded) this.controller.openPanel(call, "reason");
        return true;
      case "edit":
        if (buttonsShown && !this.controller.guarded) this.controller.openPanel(call, "edit");
        return true;
      case "allow":
        if (buttonsShown && !this.controller.guarded && mayAlwaysAllow(call)) this.controller.openPanel(call, "allow");
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
        this.controller.decide(call, { kind: "approve" });
        return true;
      case "reason":
        this.controller.decide(call, { kind: "deny", reason: this.controller.draftOf(call.id).reason.text });
        return true;
      case "edit":
        this.controller.decide(call, this.controller.draftOf(call.id).choice());
        return true;
      case "allow":
        return this.sendForm(call.id);
    }
  }

  private sendForm(id: string): boolean {
    this.controller.formOf(id)?.send();
    return true;
  }

  private answerAll(approved: boolean): boolean {
    const calls = this.controller.askable(waitingCalls(this.controller.state));
    if (calls.length > 1) this.controller.decideAll(calls, approved);
    return true;
  }

  private move(call: Call, by: 1 | -1): boolean {
    const cards = callsInOrder(this.controller.state);
    const next = cards[cards.findIndex((one) => one.id === call.id) + by];
    if (next !== undefined) this.controller.element(next.id)?.focus();
    return true;
  }
}
