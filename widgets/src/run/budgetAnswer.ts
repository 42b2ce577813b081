/** The answer to a pause, from the click until the run goes on. */
import type { Channel } from "../channel/channel";
import type { BudgetCommand, BudgetLimits, PauseView } from "../protocol";
import type { RunState } from "../state";
import type { BudgetReply } from "./context";

export class BudgetAnswer {
  private sent: { readonly command: BudgetCommand; readonly noticesThen: number } | null = null;

  constructor(
    private readonly channel: Channel,
    private readonly runId: string,
  ) {}

  /** Bad news since the click makes room for another try. */
  stateOf(state: RunState, pause: PauseView): BudgetReply {
    if (this.sent === null || this.sent.command.pause_id !== pause.pause_id || notices(state) > this.sent.noticesThen)
      return "no";
    return this.channel.isQueued(this.sent.command) ? "queued" : "sent";
  }

  send(state: RunState, pause: PauseView, add: BudgetLimits, without_usd: boolean): void {
    const command: BudgetCommand = {
      type: "budget",
      run_id: this.runId,
      pause_id: pause.pause_id,
      add,
      ...(without_usd ? { without_usd } : {}),
    };
    this.sent = { command, noticesThen: notices(state) };
    this.channel.raiseBudget(command);
  }

  takeBack(): void {
    if (this.sent !== null) this.channel.unsend(this.sent.command);
    this.sent = null;
  }
}

function notices(state: RunState): number {
  return state.items.filter((item) => item.kind === "notice").length;
}
