/** One call on one view, as signals. */
import { computed, signal, type ReadonlySignal } from "@preact/signals";
import type { CallSignals, Panel } from "../card/context";
import { isLine, type Fold } from "../card/folding";
import type { PendingDecision } from "../channel/decisions";
import { asksWhatNow, callOf, emptyCall, needsYou, type RunState } from "../state";
import { retryOf, undoOf, type Asked } from "./endedCalls";

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
  readonly undoAsked = signal<boolean | null>(null);

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
