/** One call on one view, as signals. */
import { type ReadonlySignal, computed, signal } from "@preact/signals";
import type { CallSignals, Panel, Retry, Undo } from "../card/context";
import { type Fold, isLine } from "../card/folding";
import type { PendingDecision } from "../channel/decisions";
import { type Call, type RunState, asksWhatNow, callOf, emptyCall, needsYou } from "../state/model";

/** The signals of a run that its calls depend on. */
interface CallsRun {
  readonly state: ReadonlySignal<RunState>;
  /** By approval, what this page has decided and the runtime has not confirmed. */
  readonly decisions: ReadonlySignal<ReadonlyMap<string, PendingDecision>>;
  readonly goesOn: ReadonlySignal<boolean>;
  readonly off: ReadonlySignal<boolean>;
  /** The id of the call that has the full frame. */
  readonly current: ReadonlySignal<string | null>;
  readonly folds: ReadonlySignal<ReadonlyMap<string, Fold>>;
}

export class CallModel implements CallSignals {
  readonly panel = signal<Panel>("none");
  readonly opened = signal<boolean | null>(null);
  readonly asked = signal<Asked>(null);
  /** The call as it was when its undo, or that undo's undo, was asked for here. */
  readonly undoAsked = signal<Call | null>(null);

  constructor(
    readonly id: string,
    private readonly run: CallsRun,
  ) {}

  readonly call = computed(() => callOf(this.run.state.value, this.id) ?? emptyCall(this.id, "", 0));
  readonly pending = computed(() => this.run.decisions.value.get(this.call.value.approvalId ?? "") ?? null);
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
  readonly yours = computed(() => this.asksWhatNow.value || (this.waits.value && !this.run.off.value));
  readonly current = computed(() => this.run.current.value === this.id);
  readonly fold = computed(() => {
    if (this.opened.value !== null) return this.opened.value ? "open" : "line";
    return this.run.folds.value.get(this.id) ?? "open";
  });
  readonly line = computed(() => isLine(this.call.value, this.fold.value));
}

/** The person's choice for a call whose outcome is an error, unknown, or a stored one. */
export type Asked = "retry" | "continue" | null;

/** Offered only where it works: `goesOn` says whether the run does, over a line that is there. */
export function retryOf(call: Call, state: RunState, asked: Asked, goesOn: boolean): Retry {
  if (call.state === "unknown") return unknownRetryOf(call, state, asked, goesOn);
  if (call.state !== "error" && call.cachedAt === null) return "no";
  if (asked === "retry") return "asked";
  return goesOn ? "offered" : "no";
}

/** An answer that the runtime did not take makes room for another. */
function unknownRetryOf(call: Call, state: RunState, asked: Asked, goesOn: boolean): Retry {
  const answered = call.step !== state.step || call.unknownAnswer === "continue";
  if (call.unknownAnswer === "retry" || (answered && asked === "retry")) return "asked";
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
