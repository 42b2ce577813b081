/** One run on one view, as signals that follow its events, a frame at a time. */
import { batch, computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { type Channel, pendingDecision, pendingRaise } from "../channel/channel";
import {
  asksWhatNow,
  callOf,
  callsInOrder,
  delayOf,
  emptyCall,
  needsYou,
  pauseOf,
  runEnded,
  waitingCalls,
  type Call,
  type RunState,
} from "../state/model";
import { SHARED } from "../text/words.gen";
import type { CallState } from "../protocol";
import { hasRichOutput } from "../state/outputs";

const NOTHING: readonly RunState[] = [];
/** What comes together is drawn at once; by a timer, as a page in the background paints no frames and is still read out. */
const DRAW_EVERY_MS = 10;

export type Panel = "none" | "reason" | "edit" | "run" | "allow";

/** Whether a call that failed, or whose outcome is unknown, can be asked for again. */
export type Retry = "no" | "offered" | "sent" | "asked";

/** Whether what a call wrote can be put back; `redo`: it was, and that can be undone; `done`: it was. */
export type Undo = "no" | "offered" | "asked" | "redo" | "done";

/** The person's choice for a call whose outcome is an error, unknown, or a stored one. */
export type Asked = "retry" | "continue" | null;

export class RunStore {
  readonly state: Signal<RunState>;
  readonly connection;
  readonly commands;
  /** The runs that this one waits for, the one that goes on first. */
  readonly ahead: Signal<readonly RunState[]> = signal(NOTHING);
  /** Nothing was asked for in the conversation after this run. */
  readonly newest = signal(false);
  /** Decisions are off: the connection has been away for too long. */
  readonly off = signal(false);
  /** For a moment after a decision, so that a second click does not hit the next card. */
  readonly guarded = signal(false);
  readonly stopping = signal(false);
  readonly focusedCall = signal<string | null>(null);
  /** How much the run showed when it was last tried again: one click, one try. */
  readonly triedAt = signal(-1);
  /** When the delay began that was hurried here last, and when that was. */
  readonly hurried = signal({ since: "", at: "" });
  private readonly models = new Map<string, CallModel>();
  private drawTimer: ReturnType<typeof setTimeout> | undefined;
  private offTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly channel: Channel,
    readonly runId: string,
  ) {
    this.state = signal(channel.state(runId));
    this.connection = signal(channel.connection);
    this.commands = signal(channel.commands);
    this.copy();
  }

  readonly run = computed(() => this.state.value.run);
  readonly status = computed(() => this.run.value?.status ?? "starting");
  readonly ended = computed(() => runEnded(this.state.value));
  readonly pause = computed(() => pauseOf(this.state.value));
  /** Why the model is asked again, as this view shows it: what it has hurried waits no more. */
  readonly delay = computed(() => {
    const delay = this.stopping.value || this.gone.value ? null : delayOf(this.state.value);
    const { since, at } = this.hurried.value;
    return delay?.until && since === delay.since ? { ...delay, until: at } : delay;
  });
  /** The kernel that the calls would run in is no more. */
  readonly gone = computed(() => this.connection.value.status === "gone");
  readonly recorded = computed(() => this.run.value?.recorded === true);
  /** How many calls a recording approved, in place of a person. */
  readonly approvedByRecording = computed(
    () =>
      callsInOrder(this.state.value).filter(
        ({ decider, state }) => decider?.kind === "script" && decider.name === SHARED.recorded.by && state !== "denied",
      ).length,
  );
  readonly isDemo = computed(() => this.run.value?.model === "demo");
  /** A call that is asked for again waits for the person. */
  readonly asksFirst = computed(() => this.run.value?.policy.mode === "ask");
  readonly items = computed(() => this.state.value.items);
  readonly texts = computed(() => this.state.value.texts);
  /** The answer that is being written, as far as it has come. */
  readonly text = computed(() => this.state.value.tail?.text ?? "");
  /** The model's reasoning so far. */
  readonly thought = computed(() => this.state.value.thinking ?? "");
  /** The id of the message that is being written. */
  readonly writing = computed(() => this.state.value.tail?.id ?? null);
  readonly thinking = computed(() => this.state.value.thinking !== null && !this.ended.value);
  readonly folds = computed(() => foldsOf(this.state.value));
  readonly calls = computed(() => callsInOrder(this.state.value).map((call) => this.call(call.tool_call_id)));
  /** Whether what is asked for now is done: the run has not ended, and the line is there. */
  readonly goesOn = computed(
    () => this.run.value?.status === "running" && !this.stopping.value && this.connection.value.status === "open",
  );
  /** The last of several calls whose changes can be put back: it offers to do so with all. */
  readonly undoesAll = computed(() => {
    const changes = this.calls.value.filter((card) => card.undo.value === "offered");
    return changes.length > 1 ? (changes.at(-1)?.id ?? null) : null;
  });
  readonly waitingCount = computed(() => waitingCalls(this.state.value).length);
  readonly several = computed(() => this.waitingCount.value > 1);
  readonly firstWaiting = computed(() => waitingCalls(this.state.value)[0]?.tool_call_id ?? null);
  /** The cards that one answer may cover: what is being edited is not on screen as the model wrote it. */
  readonly answerable: ReadonlySignal<readonly CallModel[]> = computed(() =>
    this.off.value
      ? []
      : this.calls.value.filter(
          (card) =>
            card.call.value.state === "awaiting_approval" && card.pending.value === null && card.panel.value !== "edit",
        ),
  );
  readonly current: ReadonlySignal<string | null> = computed(() => {
    if (this.off.value) return null;
    const waiting = this.calls.value.filter((card) => card.waits.value);
    if (waiting.length === 0) return this.calls.value.findLast((card) => card.asksWhatNow.value)?.id ?? null;
    return (waiting.find((card) => card.id === this.focusedCall.value) ?? waiting[0])?.id ?? null;
  });
  /** The answer to the pause, once it was given in this page. */
  readonly raise = computed(() => pendingRaise(this.commands.value, this.pause.value?.pause_id ?? ""));
  readonly waitsForYou = computed(() => {
    const state = this.state.value;
    const asks = this.calls.value.some((card) => needsYou(card.call.value) || asksWhatNow(card.call.value, state));
    return asks || this.pause.value !== null;
  });
  /** The notice of the failure after which the run can be tried again. */
  readonly retryable = computed(() => {
    const failed = this.run.value?.status === "error" && this.run.value.error?.code === "LLM_ERROR";
    const possible = failed && this.newest.value && this.connection.value.status === "open";
    if (!possible || this.triedAt.value === this.items.value.length) return null;
    return this.items.value.findLast((item) => item.kind === "notice" && item.problem.code === "LLM_ERROR")?.id ?? null;
  });

  call(id: string): CallModel {
    const model = this.models.get(id) ?? new CallModel(id, this);
    this.models.set(id, model);
    return model;
  }

  /** Follows the channel, until the function that it gives back is called. */
  watch(): () => void {
    this.copy();
    const stop = this.channel.subscribe(() => {
      this.drawTimer ??= setTimeout(() => this.refresh(), DRAW_EVERY_MS);
    });
    return () => {
      stop();
      this.cancelDrawing();
      clearTimeout(this.offTimer);
    };
  }

  /** What the person has just done is seen before their next key is. */
  refresh(): void {
    this.cancelDrawing();
    this.copy();
  }

  private cancelDrawing(): void {
    clearTimeout(this.drawTimer);
    this.drawTimer = undefined;
  }

  /** Copies what the channel holds. */
  private copy(): void {
    const { channel, runId } = this;
    const state = channel.state(runId);
    const isQueued = state.run?.status === "queued" && channel.connection.status !== "gone";
    const ahead = isQueued ? channel.ahead(runId) : NOTHING;
    batch(() => {
      this.state.value = state;
      this.connection.value = channel.connection;
      this.commands.value = channel.commands;
      this.newest.value = channel.isNewest(runId);
      this.ahead.value = ahead;
      this.off.value = channel.decisionsOff(Date.now());
    });
    this.awaitOff();
  }

  /** Decisions go off by the clock, though nothing arrives that would say so. */
  private awaitOff(): void {
    clearTimeout(this.offTimer);
    const left = this.channel.decisionsOffIn(Date.now());
    if (left !== null) this.offTimer = setTimeout(() => this.refresh(), left);
  }
}

/** One call on one view. A component of its card renders when a signal that it reads has changed. */
export class CallModel {
  /** Known to the run: one answer to all calls leaves out a call that is being edited. */
  readonly panel = signal<Panel>("none");
  /** Whether the person has opened or closed the card. */
  readonly opened = signal<boolean | null>(null);
  readonly asked = signal<Asked>(null);
  /** The call as it was when its undo, or that undo's undo, was asked for here. */
  readonly undoAsked = signal<Call | null>(null);

  constructor(
    readonly id: string,
    private readonly run: RunStore,
  ) {}

  readonly call = computed(() => callOf(this.run.state.value, this.id) ?? emptyCall(this.id, "", 0));
  /** A decision of this page that the runtime has not confirmed yet. */
  readonly pending = computed(() => pendingDecision(this.run.commands.value, this.call.value.approval_id));
  readonly retry = computed(() =>
    retryOf(this.call.value, this.run.state.value, this.asked.value, this.run.goesOn.value),
  );
  readonly undo = computed(() => undoOf(this.call.value, this.undoAsked.value, this.run.goesOn.value));
  /** The run waits for the person to say what to do about this call. */
  readonly asksWhatNow = computed(
    () => asksWhatNow(this.call.value, this.run.state.value) && this.retry.value === "offered",
  );
  /** The call waits for a decision or an answer that this page has not given. */
  readonly waits = computed(() => needsYou(this.call.value) && this.pending.value === null);
  /** The person is asked something, and can answer. */
  readonly yours = computed(() => this.asksWhatNow.value || (this.waits.value && !this.run.off.value));
  /** One of several that wait has the full frame, the filled button and the key hints. */
  readonly current = computed(() => this.run.current.value === this.id);
  readonly fold: ReadonlySignal<Fold> = computed(() => {
    if (this.opened.value !== null) return this.opened.value ? "open" : "line";
    return this.run.folds.value.get(this.id) ?? "open";
  });
  /** The card is no more than its head. */
  readonly line = computed(() => isLine(this.call.value, this.fold.value));
}

/** Offered only where it works: `goesOn` says whether the run does, over a line that is there. */
export function retryOf(call: Call, state: RunState, asked: Asked, goesOn: boolean): Retry {
  if (call.state === "unknown") return unknownRetryOf(call, state, asked, goesOn);
  if (call.state !== "error" && call.cached_at === null) return "no";
  if (asked === "retry") return "asked";
  return goesOn ? "offered" : "no";
}

/** An answer that the runtime did not take makes room for another. */
function unknownRetryOf(call: Call, state: RunState, asked: Asked, goesOn: boolean): Retry {
  const answered = call.step !== state.step || call.unknown_answer === "continue";
  if (call.unknown_answer === "retry" || (answered && asked === "retry")) return "asked";
  if (asked !== null && !answered && call.problem === null) return "sent";
  return (answered || asksWhatNow(call, state)) && goesOn ? "offered" : "no";
}

export function undoOf(call: Call, asked: Call | null, goesOn: boolean): Undo {
  const no = call.undone ? "done" : "no";
  // A problem is the answer to an undo: the file is no longer as it was left.
  if (call.undo === null || call.problem !== null) return no;
  if (asked?.undone === call.undone && asked.turned === call.turned) return "asked";
  return goesOn ? (call.undone ? "redo" : "offered") : no;
}

/** `shown`: what came out, without the call. */
export type Fold = "open" | "shown" | "line";

/** States that a call ends in, and that fold to a line. */
const FOLDING = new Set<CallState>(["success", "error", "invalid", "denied", "cancelled", "superseded", "expired"]);
const ALWAYS_OPEN = new Set<CallState>(["proposed", "awaiting_approval", "approved", "executing", "unknown"]);
/** The number of plots and tables of earlier steps that stay in view; and, while a call waits, of steps whose texts do. */
const RICH_CALLS = 20;
const TEXT_STEPS = 3;

/** The shown part of each card that the person has not opened or closed. */
export function foldsOf(state: RunState): ReadonlyMap<string, Fold> {
  const calls = callsInOrder(state);
  const rich = new Set(calls.filter((call) => hasRichOutput(call.outputs)).slice(-RICH_CALLS));
  const asking = calls.find(needsYou);
  const isInView = (call: Call): boolean => {
    if (hasRichOutput(call.outputs)) return rich.has(call);
    return asking !== undefined && call.step >= asking.step - TEXT_STEPS && hasResult(call);
  };
  return new Map(calls.map((call) => [call.tool_call_id, foldOf(call, call.step === state.step, isInView)]));
}

/** Whether a call with this state has a head that opens and closes it. */
export function folds(state: CallState): boolean {
  return FOLDING.has(state);
}

/** Whether a card is no more than its head. */
export function isLine({ state }: Call, fold: Fold): boolean {
  return state === "proposed" || (FOLDING.has(state) && fold === "line");
}

function foldOf(call: Call, isLast: boolean, isInView: (call: Call) => boolean): Fold {
  if (ALWAYS_OPEN.has(call.state)) return "open";
  if (call.state === "error" && isLast) return "open";
  if (call.state === "cancelled") return isLast && call.outputs.blocks.length > 0 ? "open" : "line";
  if (call.state !== "success") return "line";
  if (isLast) return "open";
  return isInView(call) ? "shown" : "line";
}

/** What a tool read by itself is of no interest; what the person let it do is. */
function hasResult(call: Call): boolean {
  const decided = call.decider?.kind === "you" || call.decider?.kind === "other";
  return call.outputs.blocks.length > 0 || (decided && call.result !== null && call.result !== "");
}
