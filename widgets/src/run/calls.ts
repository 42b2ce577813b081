/** One call on one view, as signals. */
import { computed, signal } from "@preact/signals";
import type { CallSignals, Panel } from "../card/context";
import { asksWhatNow, callOf, emptyCall, needsYou } from "../state";
import { retryOf, undoOf, type Asked } from "./followUps";
import type { RunStore } from "./store";

export class CallModel implements CallSignals {
  readonly panel = signal<Panel>("none");
  readonly opened = signal<boolean | null>(null);
  readonly asked = signal<Asked>(null);
  readonly undoAsked = signal(false);

  constructor(
    readonly id: string,
    private readonly run: RunStore,
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
}
