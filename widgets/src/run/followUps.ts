/** What can follow a call that is over: run it again, go on without knowing, put a file back. */
import type { Channel } from "../channel/channel";
import { asksWhatNow, type Call, type RunState } from "../state";
import type { Retry, Undo } from "./context";

export class FollowUps {
  private readonly retried = new Set<string>();
  private readonly continued = new Set<string>();
  private readonly takenBack = new Set<string>();

  constructor(
    private readonly channel: Channel,
    private readonly runId: string,
    private readonly stopping: () => boolean,
  ) {}

  /** Offered only where it works: in a run that goes on, over a line that is there. */
  retryOf(call: Call, state: RunState): Retry {
    if (call.state === "unknown") return this.lookOf(call, state);
    if (call.state !== "error") return "no";
    if (this.retried.has(call.id)) return "asked";
    return this.goesOn(state) ? "offered" : "no";
  }

  /** An answer that the runtime did not take makes room for another. */
  private lookOf(call: Call, state: RunState): Retry {
    const told = call.step !== state.step || call.unknownAnswer === "continue";
    if (call.unknownAnswer === "retry" || (told && this.retried.has(call.id))) return "asked";
    const sent = this.retried.has(call.id) || this.continued.has(call.id);
    if (sent && !told && call.problem === null) return "sent";
    return (told || asksWhatNow(call, state)) && this.goesOn(state) ? "offered" : "no";
  }

  undoOf(call: Call, state: RunState): Undo {
    if (call.undone) return "done";
    // The answer to an attempt: the file is no longer as the call left it.
    if (call.undo === null || call.problem !== null) return "no";
    if (this.takenBack.has(call.id)) return "asked";
    return this.goesOn(state) ? "offered" : "no";
  }

  /** Whether the person can say what to do about a call whose outcome is unknown. */
  asksWhatNow(call: Call, state: RunState): boolean {
    return asksWhatNow(call, state) && this.retryOf(call, state) === "offered";
  }

  /** These three say whether a command was sent. */
  retry(call: Call): boolean {
    if (this.retryOf(call, this.state) !== "offered") return false;
    this.retried.add(call.id);
    this.channel.send({ type: "tool_retry", tool_call_id: call.id });
    return true;
  }

  /** Go on: the model is told that the outcome is unknown. */
  proceed(call: Call): boolean {
    if (this.retryOf(call, this.state) !== "offered") return false;
    this.continued.add(call.id);
    this.channel.send({ type: "tool_continue", tool_call_id: call.id });
    return true;
  }

  undo(call: Call): boolean {
    if (this.undoOf(call, this.state) !== "offered") return false;
    this.takenBack.add(call.id);
    this.channel.send({ type: "tool_undo", tool_call_id: call.id });
    return true;
  }

  private goesOn(state: RunState): boolean {
    return state.run?.status === "running" && !this.stopping() && this.channel.connection.status === "open";
  }

  private get state(): RunState {
    return this.channel.state(this.runId);
  }
}
