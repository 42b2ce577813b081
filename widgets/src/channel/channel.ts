/** One conversation as a page sees it: its runs' states, the connection to the runtime, and unsent commands. */
import {
  type ApprovalResponseCommand,
  type ClientCommand,
  type ConversationView,
  type ErrorEvent,
  type ServerEvent,
  type SessionEvent,
} from "../protocol";
import { callOf, emptyRun, keepEndedCalls, runEnded, type RunState } from "../state/model";
import { fromSnapshot, patchCall, reduce } from "../state/reduce";
import { randomId } from "../text/format";
import { ANOTHER_TAB, type Decider } from "../text/words";
import { Decisions } from "./decisions";
import { Sequence } from "./sequence";
import type { Receives, Transport } from "./transport";

/** After this long without a connection nothing can be promised, so nothing can be decided. */
export const DECISIONS_OFF_AFTER_MS = 60_000;
/** Where the snapshot does not have all of a run that is under way, that is read again from the log, up to this many events. */
const REPLAY_AT_MOST = 20_000;
/** The number of sent commands that are remembered, for errors that answer them. */
const COMMANDS_KEPT = 200;

/** A command that is no decision. */
export interface SentCommand {
  readonly command: ClientCommand;
  /** The run whose view sent it. */
  readonly runId: string;
  /** "queued" has not left the page; "refused" was answered by an error. */
  readonly status: "queued" | "sent" | "refused";
}

export interface Connection {
  /** "gone" is for good: the kernel that the run was in is no more. "refused" is until a person tries again. */
  readonly status: "connecting" | "open" | "lost" | "refused" | "gone";
  /** When the connection was lost, or first tried (ms). */
  readonly since: number;
  readonly nextTryAt: number | null;
  /** Why there is none, where the server says so: it has no log, and can do nothing without. */
  readonly why: string | null;
}

export class Channel {
  connection: Connection = { status: "connecting", since: Date.now(), nextTryAt: null, why: null };
  /** This page's clock minus the runtime's, in ms. */
  skew = 0;
  readonly decisions = new Decisions();
  private runs = new Map<string, RunState>();
  /** The runs as the events of the past make them, until all of those are read again. Views show the snapshot's till then. */
  private replayed: Map<string, RunState> | null = null;
  private readonly listeners = new Set<() => void>();
  private readonly sequence = new Sequence();
  /** The number of views of each run on this page. */
  private readonly views = new Map<string, number>();
  private byId: ReadonlyMap<string, SentCommand> = new Map();
  /** The ids of commands that were sent before the line was lost: a runtime that died may not have written them. */
  private unsure: ReadonlySet<string> = new Set();
  /** Two pages may share a kernel's messages, so an id has to be unique beyond this one. */
  private readonly idPrefix = randomId();
  private idsGiven = 0;
  private fresh = true;
  /** This connection has had its `session`. */
  private greeted = false;
  /** The id of the last `resume`, as long as no `session` has answered it. */
  private resuming: string | null = null;
  /** Events up to this one happened before the page was there. */
  private liveAfter = 0;

  constructor(private readonly transport: Transport) {
    transport.start({
      opened: () => this.opened(),
      frame: (text) => this.frame(text),
      lost: (nextTryAt) => this.lost(nextTryAt),
      trouble: (why) => this.trouble(why),
      refused: () => this.ended("refused"),
      gone: () => this.ended("gone"),
    });
  }

  get receives(): Receives {
    return this.transport.receives;
  }

  /** The commands that were sent, or wait to be, by id. */
  get commands(): ReadonlyMap<string, SentCommand> {
    return this.byId;
  }

  state(runId: string): RunState {
    return this.runs.get(runId) ?? emptyRun(runId);
  }

  /** Whether nothing was asked for in the conversation after a run. */
  isNewest(runId: string): boolean {
    return [...this.runs.keys()].at(-1) === runId;
  }

  /** The runs before this one that have not ended, the one that goes on first. */
  ahead(runId: string): RunState[] {
    const states = [...this.runs.values()];
    const earlier = states.slice(
      0,
      Math.max(
        0,
        states.findIndex((state) => state.runId === runId),
      ),
    );
    const open = earlier.filter((state) => state.run !== null && !runEnded(state));
    return [
      ...open.filter((state) => state.run?.status === "running"),
      ...open.filter((state) => state.run?.status !== "running"),
    ];
  }

  /** A view of a run is on this page, until the function that it gives back is called. */
  viewed(runId: string): () => void {
    this.count(runId, 1);
    return () => this.count(runId, -1);
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** False where decisions are off; the caller shows why. */
  decide(decision: ApprovalResponseCommand, callId: string, runId: string): boolean {
    if (this.decisions.get(decision.approval_id) !== null || this.decisionsOff(Date.now())) return false;
    this.clearProblem(callId);
    const command = { ...decision, id: this.newId() };
    this.decisions.put({ command, callId, runId, status: this.transport.send(command) ? "sent" : "queued" });
    this.changed();
    return true;
  }

  /** Unsend a decision that has not left the page. */
  takeBack(approvalId: string): void {
    if (this.decisions.get(approvalId)?.status !== "queued") return;
    this.decisions.settle(approvalId, false);
    this.changed();
  }

  /** Send a command, now or when the connection is back. Returns its id. */
  send(command: ClientCommand, runId: string): string {
    const id = this.newId();
    if (command.type === "budget") this.decisions.own.add(command.pause_id);
    const sent = this.transport.send({ ...command, id });
    this.setCommand(id, { command, runId, status: sent ? "sent" : "queued" });
    this.changed();
    return id;
  }

  /** Unsend a command that has not left the page. */
  unsend(id: string): void {
    if (this.byId.get(id)?.status !== "queued") return;
    this.setCommand(id, null);
    this.changed();
  }

  decisionsOff(now: number): boolean {
    const { status, since } = this.connection;
    return status === "gone" || status === "refused" || (status !== "open" && now - since >= DECISIONS_OFF_AFTER_MS);
  }

  /** In how many ms decisions go off, if the connection is not back by then. */
  decisionsOffIn(now: number): number | null {
    const { status, since } = this.connection;
    if (status === "open" || this.decisionsOff(now)) return null;
    return since + DECISIONS_OFF_AFTER_MS - now;
  }

  retryNow(): void {
    this.transport.retryNow();
  }

  close(): void {
    this.transport.close();
    this.listeners.clear();
  }

  private newId(): string {
    this.idsGiven += 1;
    return `${this.idPrefix}-${this.idsGiven}`;
  }

  private setCommand(id: string, sent: SentCommand | null): void {
    const byId = new Map(this.byId);
    if (sent === null) byId.delete(id);
    else byId.set(id, sent);
    const gone = [...byId]
      .filter(([, { status }]) => status !== "queued")
      .slice(0, Math.max(0, byId.size - COMMANDS_KEPT));
    for (const [old] of gone) byId.delete(old);
    this.byId = byId;
  }

  private count(runId: string, more: 1 | -1): void {
    const views = (this.views.get(runId) ?? 0) + more;
    if (views > 0) this.views.set(runId, views);
    else this.views.delete(runId);
    const changed = views === (more === 1 ? 1 : 0);
    if (changed && this.connection.status === "open" && (this.greeted || !this.transport.greets))
      this.transport.send({ type: "shown", run_id: runId, shown: more === 1 });
  }

  private tellViews(): void {
    for (const runId of this.views.keys()) this.transport.send({ type: "shown", run_id: runId, shown: true });
  }

  private opened(): void {
    this.connection = { status: "open", since: Date.now(), nextTryAt: null, why: null };
    this.sequence.reconnected();
    this.greeted = false;
    if (!this.fresh || !this.transport.greets) this.resume();
    if (!this.transport.greets) {
      this.flush(null);
      this.tellViews();
    }
    this.changed();
  }

  private lost(nextTryAt: number): void {
    this.connection = { status: "lost", since: this.lostAt(), nextTryAt, why: this.connection.why };
    this.decisions.lineLost();
    this.unsure = new Set([...this.byId].filter(([, { status }]) => status === "sent").map(([id]) => id));
    this.changed();
  }

  private trouble(why: string | null): void {
    if (this.connection.status !== "lost") return;
    this.connection = { ...this.connection, why };
    this.changed();
  }

  private ended(status: "refused" | "gone"): void {
    this.connection = { status, since: this.lostAt(), nextTryAt: null, why: null };
    this.changed();
  }

  private lostAt(): number {
    return this.connection.status === "open" ? Date.now() : this.connection.since;
  }

  private frame(text: string): void {
    const event = parse(text);
    if (event === null) return;
    if (event.type === "session") this.onSession(event);
    else if (event.type === "error" && isAboutThisConnection(event)) this.refused(event);
    else if (event.type === "pong") this.ponged(event.seq);
    else if (event.type !== "ack") this.logged(event); // what came of an acknowledged command is in the log
    if (this.replayed === null || event.type === "session" || event.type === "error") this.changed();
  }

  /** A pong says how far the log is: what this page does not have by now, it asks for. */
  private ponged(seq: number): void {
    if (seq > this.sequence.last) this.resume();
  }

  private logged(event: ServerEvent): void {
    switch (this.sequence.actionFor(event.seq)) {
      case "resume":
        this.resume();
        return;
      case "drop":
        return;
      case "take":
        this.take(event);
    }
  }

  private take(event: ServerEvent): void {
    if (event.run_id !== null) {
      const context = { live: event.seq > this.liveAfter, own: this.decisions.own };
      const runs = this.replayed ?? this.runs;
      runs.set(event.run_id, reduce(runs.get(event.run_id) ?? emptyRun(event.run_id), event, context));
    }
    if (event.type === "approval_response") this.decisions.settle(event.approval_id, true);
    if (event.type === "tool_complete") this.settleCall(event.tool_call_id);
    if (this.replayed !== null && event.seq >= this.liveAfter) this.showReplayed(this.replayed);
  }

  /** What has ended stays as the snapshot had it, which is the same: 500 cards are not rendered again. */
  private showReplayed(replayed: ReadonlyMap<string, RunState>): void {
    const shown = this.runs;
    this.runs = new Map(
      [...replayed].map(([runId, state]) => [runId, keepEndedCalls(shown.get(runId) ?? emptyRun(runId), state)]),
    );
    this.replayed = null;
  }

  private onSession(event: SessionEvent): void {
    const answers = event.command_id;
    // A kernel's messages go to all pages: a session that another one has asked for is of no use here.
    if (answers !== null && answers !== this.resuming) return;
    if (answers !== null) this.resuming = null;
    this.skew = Date.now() - Date.parse(event.timestamp);
    const startedOver = event.last_seq < this.sequence.last;
    const farBehind = this.greeted;
    this.greeted = true;
    if (farBehind) {
      // One that was not asked for: this page was away for so long that the snapshot takes the events' place.
      this.startFrom(event);
    } else if (this.fresh || startedOver) {
      this.fresh = false;
      this.begin(event);
      if (this.transport.greets) this.resume();
    }
    this.flush(new Set(event.pending.map((call) => call.approval_id)));
    this.sendAgain(event.snapshot);
    this.tellViews();
  }

  private begin(event: SessionEvent): void {
    this.startFrom(event);
    const active = event.snapshot.runs.some((run) => run.status === "queued" || run.status === "running");
    if (!active || event.last_seq > REPLAY_AT_MOST || event.last_seq === 0) return;
    if (event.resume_from === 0) this.replayed = new Map();
    this.sequence.jumpTo(event.resume_from);
  }

  private startFrom(event: SessionEvent): void {
    this.runs.clear();
    this.replayed = null;
    this.liveAfter = event.last_seq;
    this.sequence.jumpTo(event.last_seq);
    for (const run of event.snapshot.runs) this.runs.set(run.run_id, fromSnapshot(event.snapshot, run.run_id));
  }

  private resume(): void {
    this.resuming = this.newId();
    this.transport.send({ type: "resume", last_seq: this.sequence.last, id: this.resuming });
  }

  /** Send what waited. A decision whose call no longer waits for one is dropped: the log says who decided it. */
  private flush(pending: ReadonlySet<string> | null): void {
    for (const decision of [...this.decisions.all.values()]) {
      if (decision.status === "sent") continue;
      const { approval_id } = decision.command;
      if (pending !== null && !pending.has(approval_id))
        this.decisions.settle(approval_id, this.decisions.own.has(approval_id));
      else if (this.transport.send(decision.command)) this.decisions.put({ ...decision, status: "sent" });
    }
    for (const [id, sent] of this.byId) {
      if (sent.status !== "queued" || !this.transport.send({ ...sent.command, id })) continue;
      this.setCommand(id, { ...sent, status: "sent" });
    }
  }

  /** Send the answers again for which a run still waits. */
  private sendAgain(snapshot: ConversationView): void {
    for (const id of this.unsure) {
      const sent = this.byId.get(id);
      if (sent !== undefined && isAwaited(sent.command, snapshot)) this.transport.send({ ...sent.command, id });
    }
    this.unsure = new Set();
  }

  /** The runtime did not take something that this page sent, or can do nothing at all. */
  private refused(event: ErrorEvent): void {
    const id = event.command_id;
    const decision = this.decisions.answeredBy(id);
    const sent = this.commandAnsweredBy(id);
    // It answers another page, which has the same kernel's messages.
    if (id !== null && decision === null && sent === null && !id.startsWith(this.idPrefix)) return;
    if (decision !== null) this.decisions.settle(decision.command.approval_id, false);
    if (sent?.command.type === "budget") this.notByUs(sent.runId, sent.command.pause_id);
    // A rule that is no longer there: another client has removed it, and the header says so.
    if (String(event.details["unknown"] ?? "").startsWith("rule_")) return;
    const named = sent !== null && "tool_call_id" in sent.command ? sent.command.tool_call_id : null;
    const callId = event.tool_call_id ?? decision?.callId ?? named;
    const runId = decision?.runId ?? sent?.runId ?? event.details["run_id"];
    if (callId !== null) this.showOnCall(callId, event);
    else if (typeof runId === "string") this.showOnRun(runId, event);
    // No frame of this page was meant: something is wrong with the runtime's host, such as a full disk.
    else if (event.code === "INTERNAL_ERROR") this.showOnRuns(event);
  }

  private commandAnsweredBy(id: string | null): SentCommand | null {
    const sent = id !== null ? this.byId.get(id) : undefined;
    if (id === null || sent === undefined) return null;
    this.setCommand(id, { ...sent, status: "refused" });
    return sent;
  }

  private showOnCall(callId: string, event: ErrorEvent): void {
    // An older run may have a card of this id that was cut off while the model wrote the call.
    const state = [...this.runs.values()].findLast((run) => callOf(run, callId));
    if (state === undefined) return;
    const problem = { code: event.code, message: event.message };
    const lost = event.code === "CONFLICT";
    const patched = patchCall(state, { tool_call_id: callId }, ({ decider }) => ({
      problem,
      decider: lost ? notYou(decider) : decider,
    }));
    this.runs.set(state.runId, patched);
  }

  /** Two answers to a pause crossed on the line. */
  private notByUs(runId: string, pause: string): void {
    this.decisions.own.delete(pause);
    const state = this.state(runId);
    const items = state.items.map((item) =>
      item.kind === "raise" && item.id === pause
        ? { ...item, by: { ...item.by, kind: "other" as const, name: item.raise.decided_by ?? ANOTHER_TAB } }
        : item,
    );
    this.runs.set(runId, { ...state, items });
  }

  private showOnRun(runId: string, event: ErrorEvent): void {
    this.runs.set(runId, reduce(this.state(runId), event, { live: true, own: this.decisions.own }));
  }

  private showOnRuns(event: ErrorEvent): void {
    for (const [runId, state] of this.runs) {
      const known = state.items.some((item) => item.kind === "notice" && item.problem.message === event.message);
      if (!known && (state.run?.status === "running" || state.run?.status === "queued")) {
        this.showOnRun(runId, event);
      }
    }
  }

  private settleCall(callId: string): void {
    for (const decision of [...this.decisions.all.values()]) {
      if (decision.callId === callId) this.decisions.settle(decision.command.approval_id, false);
    }
  }

  private clearProblem(callId: string): void {
    for (const [runId, state] of this.runs) {
      if (!callOf(state, callId)?.problem) continue;
      this.runs.set(
        runId,
        patchCall(state, { tool_call_id: callId }, () => ({ problem: null })),
      );
    }
  }

  private changed(): void {
    for (const listener of [...this.listeners]) listener();
  }
}

/** Whether a command answers a pause, or for an unknown outcome, and nobody's answer to that is in the log. */
function isAwaited(command: ClientCommand, snapshot: ConversationView): boolean {
  if (command.type === "budget")
    return snapshot.runs.some((run) => run.run_id === command.run_id && run.paused?.pause_id === command.pause_id);
  if (command.type !== "tool_continue") return false;
  const call = snapshot.tool_calls.find((one) => one.tool_call_id === command.tool_call_id);
  return call?.state === "unknown" && call.unknown_answer === null;
}

/** Two decisions crossed on the line: the one in the log was not this page's. */
function notYou(decider: Decider | null): Decider | null {
  return decider?.kind === "you" ? { kind: "other", name: ANOTHER_TAB } : decider;
}

/** Errors of a run are in the log and have their own `seq`; those about a frame of this page are neither. */
function isAboutThisConnection(event: ErrorEvent): boolean {
  return (
    event.run_id === null ||
    typeof event.command_id === "string" ||
    ["CONFLICT", "INVALID_FORMAT", "ACCESS_DENIED"].includes(event.code)
  );
}

function parse(text: string): ServerEvent | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const known =
    typeof value === "object" && value !== null && "type" in value && "seq" in value && typeof value.seq === "number";
  return known ? (value as ServerEvent) : null;
}
