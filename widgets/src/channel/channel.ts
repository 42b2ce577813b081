/** One conversation as a page sees it: its runs' states, the connection to the runtime, and unsent commands. */
import type { ApprovalResponseCommand, ClientCommand, ErrorEvent, ServerEvent, SessionEvent } from "../protocol";
import { callOf, emptyRun, runEnded, type RunState } from "../state/model";
import { fromSnapshot, patchCall, reduce } from "../state/reduce";
import { randomId } from "../text/format";
import { ANOTHER_TAB, type Decider } from "../text/words";
import type { Transport, TransportListener } from "./transport";

/** After this long without a connection nothing can be promised, so nothing can be decided. */
export const DECISIONS_OFF_AFTER_MS = 60_000;

/** A command of this page. A decision is kept until the log says how its call was decided. */
export interface SentCommand<Command = ClientCommand> {
  readonly id: string;
  readonly command: Command;
  /** The run whose view sent it, and the call that it is about. */
  readonly runId: string;
  readonly callId: string | null;
  /** "queued" has not left the page, or was on its way when the line was lost. */
  readonly status: "queued" | "sent";
}

export type Commands = ReadonlyMap<string, SentCommand>;

export interface Connection {
  /** "gone" is for good: the kernel that the run was in is no more. "refused" is until a person tries again. */
  readonly status: "connecting" | "open" | "lost" | "refused" | "gone";
  /** When the connection was lost, or first tried (ms). */
  readonly since: number;
  readonly nextTryAt: number | null;
  /** Why there is none, where the server says so: it has no log, and can do nothing without. */
  readonly why: string | null;
}

export class Channel implements TransportListener {
  connection: Connection = { status: "connecting", since: Date.now(), nextTryAt: null, why: null };
  /** This page's clock minus the runtime's, in ms. */
  skew = 0;
  /** The commands that were sent, or wait to be, by id. */
  commands: Commands = new Map();
  /** Approvals and pauses that this page answered, for "Approved by you". */
  private readonly own = new Set<string>();
  private readonly runs = new Map<string, RunState>();
  private readonly listeners = new Set<() => void>();
  /** The `seq` of the last event taken: each is taken once and in order, whatever the line does. */
  private last = 0;
  /** The `seq` of an event before which some are missing: they were asked for. */
  private gapAt: number | null = null;
  /** The number of views of each run on this page. */
  private readonly views = new Map<string, number>();
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
    transport.start(this);
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
    const at = states.findIndex((state) => state.runId === runId);
    const open = states.slice(0, Math.max(0, at)).filter((state) => state.run !== null && !runEnded(state));
    const goesOn = ({ run }: RunState): number => Number(run?.status === "running");
    return open.sort((one, other) => goesOn(other) - goesOn(one));
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
  decide(command: ApprovalResponseCommand, callId: string, runId: string): boolean {
    if (pendingDecision(this.commands, command.approval_id) !== null || this.decisionsOff(Date.now())) return false;
    this.clearProblem(callId);
    this.send(command, runId, callId);
    return true;
  }

  /** Send a command, now or when the connection is back. */
  send(command: ClientCommand, runId: string, about: string | null = null): void {
    const id = this.newId();
    const callId = "tool_call_id" in command ? command.tool_call_id : about;
    const sent = this.transport.send({ ...command, id });
    this.put({ id, command, runId, callId, status: sent ? "sent" : "queued" });
    this.changed();
  }

  /** Unsend a command that has not left the page. */
  takeBack(id: string): void {
    const sent = this.commands.get(id);
    if (sent?.status !== "queued") return;
    this.forget(sent, false);
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

  private put(sent: SentCommand): void {
    this.commands = new Map(this.commands).set(sent.id, sent);
    const answered = answeredBy(sent.command);
    if (answered !== null && sent.status === "sent") this.own.add(answered);
  }

  /** `own` says whether it is what was decided in the end. */
  private forget({ id, command }: SentCommand, own: boolean): void {
    this.commands = new Map([...this.commands].filter(([one]) => one !== id));
    const answered = answeredBy(command);
    if (answered !== null && !own) this.own.delete(answered);
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

  opened(): void {
    this.connection = { status: "open", since: Date.now(), nextTryAt: null, why: null };
    this.gapAt = null; // what was in flight on the old one is lost
    this.greeted = false;
    if (!this.fresh || !this.transport.greets) this.resume();
    if (!this.transport.greets) {
      this.flush(null);
      this.tellViews();
    }
    this.changed();
  }

  lost(nextTryAt: number): void {
    this.connection = { status: "lost", since: this.lostAt(), nextTryAt, why: this.connection.why };
    // Whether the last answers have arrived is not known, and a runtime that died may not have written them.
    for (const sent of this.commands.values())
      if (ANSWERS.includes(sent.command.type)) this.put({ ...sent, status: "queued" });
    this.changed();
  }

  trouble(why: string | null): void {
    if (this.connection.status !== "lost") return;
    this.connection = { ...this.connection, why };
    this.changed();
  }

  ended(status: "refused" | "gone"): void {
    this.connection = { status, since: this.lostAt(), nextTryAt: null, why: null };
    this.changed();
  }

  private lostAt(): number {
    return this.connection.status === "open" ? Date.now() : this.connection.since;
  }

  frame(text: string): void {
    const event = parse(text);
    if (event === null) return;
    if (event.type === "session") this.onSession(event);
    else if (event.type === "error" && isAboutThisConnection(event)) this.refused(event);
    else if (event.type === "pong") {
      // It says how far the log is: what this page does not have by now, it asks for.
      if (event.seq > this.last) this.resume();
    } else if (event.type !== "ack") this.logged(event); // what came of an acknowledged command is in the log
    this.changed();
  }

  private logged(event: ServerEvent): void {
    const { seq } = event;
    if (seq <= this.last) return;
    // The same frame again, after the missing events were asked for: the log has nothing in between.
    if (seq === this.last + 1 || seq === this.gapAt) {
      this.jumpTo(seq);
      this.take(event);
    } else if (this.gapAt === null) {
      this.gapAt = seq;
      this.resume();
    }
  }

  private jumpTo(seq: number): void {
    this.last = seq;
    this.gapAt = null;
  }

  private take(event: ServerEvent): void {
    if (event.run_id !== null) {
      const context = { live: event.seq > this.liveAfter, own: this.own };
      this.runs.set(event.run_id, reduce(this.state(event.run_id), event, context));
    }
    for (const sent of this.commands.values()) {
      if (event.type === "approval_response" && answeredBy(sent.command) === event.approval_id) this.forget(sent, true);
      else if (event.type === "tool_complete" && sent.callId === event.tool_call_id) this.forget(sent, false);
    }
  }

  private onSession(event: SessionEvent): void {
    const answers = event.command_id;
    // A kernel's messages go to all pages: a session that another one has asked for is of no use here.
    if (answers !== null && answers !== this.resuming) return;
    if (answers !== null) this.resuming = null;
    this.skew = Date.now() - Date.parse(event.timestamp);
    const startedOver = event.last_seq < this.last;
    const farBehind = this.greeted;
    this.greeted = true;
    if (farBehind) {
      // One that was not asked for: this page was away for so long that the snapshot takes the events' place.
      this.startFrom(event, event.last_seq);
    } else if (this.fresh || startedOver) {
      this.fresh = false;
      this.startFrom(event, event.resume_from);
      if (this.transport.greets) this.resume();
    }
    this.flush(event);
    this.tellViews();
  }

  /** Takes the snapshot, which shows all up to an event of the log, or nothing where all events are to be read. */
  private startFrom({ snapshot, last_seq }: SessionEvent, shownTo: number): void {
    this.runs.clear();
    this.liveAfter = last_seq;
    this.jumpTo(shownTo);
    if (shownTo === 0) return;
    for (const run of snapshot.runs) this.runs.set(run.run_id, fromSnapshot(snapshot, run.run_id));
  }

  private resume(): void {
    this.resuming = this.newId();
    this.transport.send({ type: "resume", last_seq: this.last, id: this.resuming });
  }

  /** Send what waited, but for an answer that no run waits for any more: the log says whose that was. */
  private flush(session: SessionEvent | null): void {
    for (const sent of this.commands.values()) {
      if (sent.status === "sent") continue;
      if (session !== null && !isAwaited(sent.command, session)) this.forget(sent, true);
      else if (this.transport.send({ ...sent.command, id: sent.id })) this.put({ ...sent, status: "sent" });
    }
  }

  /** The runtime did not take something that this page sent, or can do nothing at all. */
  private refused(event: ErrorEvent): void {
    const id = event.command_id;
    const sent = id === null ? undefined : this.commands.get(id);
    // It answers another page, which has the same kernel's messages.
    if (id !== null && sent === undefined && !id.startsWith(this.idPrefix)) return;
    if (sent !== undefined) this.forget(sent, false);
    if (sent?.command.type === "budget") this.notByUs(sent.runId, sent.command.pause_id);
    // A rule that is no longer there: another client has removed it, and the header says so.
    if (String(event.details["unknown"] ?? "").startsWith("rule_")) return;
    const callId = event.tool_call_id ?? sent?.callId ?? null;
    const runId = sent?.runId ?? event.details["run_id"];
    if (callId !== null) this.showOnCall(callId, event);
    else if (typeof runId === "string") this.showOnRun(runId, event);
    // No frame of this page was meant: something is wrong with the runtime's host, such as a full disk.
    else if (event.code === "INTERNAL_ERROR") this.showOnRuns(event);
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
    const state = this.state(runId);
    const items = state.items.map((item) =>
      item.kind === "raise" && item.id === pause
        ? { ...item, by: { ...item.by, kind: "other" as const, name: item.raise.decided_by ?? ANOTHER_TAB } }
        : item,
    );
    this.runs.set(runId, { ...state, items });
  }

  private showOnRun(runId: string, event: ErrorEvent): void {
    this.runs.set(runId, reduce(this.state(runId), event, { live: true, own: this.own }));
  }

  private showOnRuns(event: ErrorEvent): void {
    for (const [runId, state] of this.runs) {
      const known = state.items.some((item) => item.kind === "notice" && item.problem.message === event.message);
      if (!known && (state.run?.status === "running" || state.run?.status === "queued")) {
        this.showOnRun(runId, event);
      }
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

/** Commands for which a run, or a call of it, waits. */
const ANSWERS: readonly ClientCommand["type"][] = ["approval_response", "budget", "tool_continue"];

/** The approval or the pause that a command answers. */
function answeredBy(command: ClientCommand): string | null {
  if (command.type === "approval_response") return command.approval_id;
  return command.type === "budget" ? command.pause_id : null;
}

/** Whether nobody's answer is in the log yet, where a command is one. */
function isAwaited(command: ClientCommand, { pending, snapshot }: SessionEvent): boolean {
  switch (command.type) {
    case "approval_response":
      return pending.some((call) => call.approval_id === command.approval_id);
    case "budget":
      return snapshot.runs.some((run) => run.run_id === command.run_id && run.paused?.pause_id === command.pause_id);
    case "tool_continue": {
      const call = snapshot.tool_calls.find((one) => one.tool_call_id === command.tool_call_id);
      return call?.state === "unknown" && call.unknown_answer === null;
    }
    default:
      return true;
  }
}

/** A decision of this page that the log does not have yet. */
export function pendingDecision(commands: Commands, approvalId: string): SentCommand<ApprovalResponseCommand> | null {
  for (const sent of commands.values())
    if (sent.command.type === "approval_response" && sent.command.approval_id === approvalId)
      return sent as SentCommand<ApprovalResponseCommand>;
  return null;
}

/** An answer of this page to a pause. */
export function pendingRaise(commands: Commands, pauseId: string): SentCommand | null {
  return (
    [...commands.values()].find(({ command }) => command.type === "budget" && command.pause_id === pauseId) ?? null
  );
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
