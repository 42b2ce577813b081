/** What a person does with a run on one view: which panels are open, what is written in them, and what is sent. */
import { rest } from "../ui/focus";
import type { Channel } from "../channel/channel";
import type { PendingDecision } from "../channel/decisions";
import type { Receives } from "../channel/transport";
import type { BudgetLimits, ClientCommand, PauseView } from "../protocol";
import { asksWhatNow, callOf, callsInOrder, needsYou, pauseOf, runEnded, type Call, type RunState } from "../state";
import type { Actions, Choice, Form, Panel, BudgetReply, Retry, Undo, Waiting } from "./context";
import { Draft } from "../card/edit";
import { commandFor } from "../card/choice";
import { Frames } from "./frames";
import { BudgetAnswer } from "./budgetAnswer";
import { FollowUps } from "./followUps";

/** For this long after a decision no other card takes one: a second click was meant for the first card. */
const GUARD_MS = 400;

export class RunController implements Actions {
  stopping = false;
  /** Stop or Cancel was pressed. */
  interrupting = false;
  guarded = false;
  /** True once the page shows the present, not the past that is read again. */
  live = false;
  private readonly panels = new Map<string, Panel>();
  private readonly opened = new Map<string, boolean>();
  private readonly drafts = new Map<string, Draft>();
  private readonly followUps: FollowUps;
  /** How much the run showed when it was last tried again: one click, one try. */
  private triedAt = -1;
  private readonly budgetAnswer: BudgetAnswer;
  private focusedCall: string | null = null;
  private readonly forms = new Map<string, Form>();
  /** Where a decision left the focus, for want of something else that waits. */
  private handedOver: HTMLElement | null = null;
  private readonly frames: Frames;

  constructor(
    private readonly channel: Channel,
    private readonly runId: string,
    private readonly root: () => HTMLElement | null,
  ) {
    this.budgetAnswer = new BudgetAnswer(channel, runId);
    this.frames = new Frames(channel, runId);
    this.followUps = new FollowUps(channel, runId, () => this.stopping);
  }

  /** Renders at most once a frame, however many events come. */
  watch(render: () => void): () => void {
    const stop = this.frames.watch(render);
    const settle = setTimeout(() => (this.live = true), 1_000);
    return () => {
      stop();
      clearTimeout(settle);
    };
  }

  written(): string {
    return this.state.tail?.text ?? "";
  }

  thought(): string {
    return this.state.thinking ?? "";
  }

  watchText(render: () => void): () => void {
    return this.frames.watchText(render);
  }

  get receives(): Receives {
    return this.channel.receives;
  }

  get off(): boolean {
    return this.channel.decisionsOff(Date.now());
  }

  get gone(): boolean {
    return this.channel.connection.status === "gone";
  }

  now(): number {
    return Date.now() - this.channel.skew;
  }

  callById(id: string | null): Call | undefined {
    return id === null ? undefined : callOf(this.state, id);
  }

  panelOf(callId: string): Panel {
    return this.panels.get(callId) ?? "none";
  }

  openedByHand(callId: string): boolean | undefined {
    return this.opened.get(callId);
  }

  pendingOf(call: Call): PendingDecision | null {
    return this.channel.decisions.get(call.approvalId);
  }

  draftOf(callId: string): Draft {
    const draft =
      this.drafts.get(callId) ??
      new Draft(
        () => callOf(this.state, callId) as Call,
        () => this.frames.schedule(),
      );
    this.drafts.set(callId, draft);
    return draft;
  }

  /** The calls that one answer may cover: what is being edited is not on screen as the model wrote it. */
  askable(waiting: readonly Call[]): Call[] {
    return waiting.filter((call) => this.pendingOf(call) === null && this.panelOf(call.id) !== "edit" && !this.off);
  }

  currentCall(state: RunState): string | null {
    if (this.off) return null;
    const yours = callsInOrder(state).filter((call) => needsYou(call) && this.pendingOf(call) === null);
    if (yours.length === 0) return callsInOrder(state).findLast((call) => this.asksWhatNow(call, state))?.id ?? null;
    return (yours.find((call) => call.id === this.focusedCall) ?? yours[0])?.id ?? null;
  }

  waitingFor(state: RunState): Waiting {
    const asking = callsInOrder(state).filter((call) => needsYou(call) || asksWhatNow(call, state));
    const pause = pauseOf(state);
    if (asking.length === 0 && pause === null) return "nobody";
    const answered = asking.every((call) => this.pendingOf(call) !== null || this.retryOf(call, state) === "sent");
    const raised = pause === null || this.budgetReplyOf(state, pause) !== "no";
    return this.receives === "between-cells" && answered && raised ? "kernel" : "you";
  }

  retryOf(call: Call, state: RunState): Retry {
    return this.followUps.retryOf(call, state);
  }

  undoOf(call: Call, state: RunState): Undo {
    return this.followUps.undoOf(call, state);
  }

  asksWhatNow(call: Call, state: RunState): boolean {
    return this.followUps.asksWhatNow(call, state);
  }

  retry(call: Call): void {
    if (this.followUps.retry(call)) this.handOver(call.id);
  }

  proceed(call: Call): void {
    if (this.followUps.proceed(call)) this.handOver(call.id);
  }

  undo(call: Call): void {
    if (this.followUps.undo(call)) this.keepFocus(call.id);
  }

  focused(target: EventTarget | null): void {
    const card = target instanceof Element ? target.closest("[data-tool-call-id]") : null;
    const id = card?.getAttribute("data-tool-call-id") ?? null;
    if (id === this.focusedCall) return;
    this.focusedCall = id;
    this.frames.schedule();
  }

  readonly toggle = (call: Call): void => {
    const card = this.element(call.id)?.querySelector("button.ak-head");
    this.opened.set(call.id, card?.getAttribute("aria-expanded") !== "true");
    this.frames.schedule();
  };

  openPanel(call: Call, panel: Panel): void {
    if (panel !== "none" && (call.state !== "awaiting_approval" || this.off || this.pendingOf(call) !== null)) return;
    this.keepFocus(call.id);
    this.panels.set(call.id, panel);
    this.frames.showNow();
  }

  decide(call: Call, choice: Choice): void {
    if (this.guarded || call.state !== "awaiting_approval" || call.approvalId === null || call.digest === null) return;
    const sent = this.channel.decide(commandFor(choice, call.approvalId, call.digest), call.id);
    if (!sent) return;
    this.handOver(call.id);
    if (choice.kind !== "edit") this.panels.delete(call.id);
    this.guard();
  }

  decideAll(calls: readonly Call[], approved: boolean): void {
    if (this.guarded) return;
    for (const call of calls) {
      if (call.approvalId === null || call.digest === null) continue;
      this.panels.delete(call.id);
      const choice: Choice = approved ? { kind: "approve" } : { kind: "deny", reason: "" };
      this.channel.decide(commandFor(choice, call.approvalId, call.digest), call.id);
    }
    if (calls[0]) this.handOver(calls[0].id);
    this.guard();
  }

  takeBack(approvalId: string): void {
    this.channel.takeBack(approvalId);
  }

  send(command: ClientCommand): void {
    if (command.type === "tool_cancel") this.interrupting = true;
    this.channel.send(command);
  }

  answer(call: Call, command: ClientCommand): void {
    this.send(command);
    this.handOver(call.id);
  }

  addForm(id: string, form: Form): () => void {
    this.forms.set(id, form);
    return () => {
      if (this.forms.get(id) === form) this.forms.delete(id);
    };
  }

  formOf(id: string): Form | undefined {
    return this.forms.get(id);
  }

  stop(): void {
    if (this.stopping || runEnded(this.state)) return;
    this.stopping = this.interrupting = true;
    this.channel.send({ type: "cancel", run_id: this.runId });
    this.root()?.querySelector<HTMLElement>(".ak-header button[aria-disabled], .ak-badge")?.focus();
  }

  budgetReplyOf(state: RunState, pause: PauseView): BudgetReply {
    return this.budgetAnswer.stateOf(state, pause);
  }

  raiseBudget(pause: PauseView, add: BudgetLimits, withoutUsd = false): void {
    if (this.guarded || this.off || this.budgetReplyOf(this.state, pause) !== "no") return;
    this.budgetAnswer.send(this.state, pause, add, withoutUsd);
    // The card goes when the run goes on; the focus stays in the run.
    this.handOver(null);
    this.guard();
  }

  takeBackRaise(): void {
    this.budgetAnswer.takeBack();
    this.frames.schedule();
  }

  /** Whether a run that ended because the model failed can go on. */
  mayTryAgain(state: RunState): boolean {
    const failed = state.run?.status === "error" && state.run.error?.code === "LLM_ERROR";
    return (
      failed &&
      this.channel.isNewest(this.runId) &&
      this.channel.connection.status === "open" &&
      this.triedAt !== state.items.length
    );
  }

  tryAgain(): void {
    this.triedAt = this.state.items.length;
    this.channel.send({ type: "run_retry", run_id: this.runId });
    this.handOver(null);
    this.frames.schedule();
  }

  get state(): RunState {
    return this.channel.state(this.runId);
  }

  private guard(): void {
    this.guarded = true;
    setTimeout(() => {
      this.guarded = false;
      this.frames.schedule();
    }, GUARD_MS);
    this.frames.schedule();
  }

  /** After every rendering: the focus that a decision left behind goes on to what waits next, wherever that is seen. */
  followUp(): void {
    const { handedOver } = this;
    if (handedOver === null) return;
    if (document.activeElement !== handedOver) {
      this.handedOver = null;
      return;
    }
    const next = isSeen(handedOver) ? this.nextWaiting(null) : null;
    if (next === null) return;
    this.handedOver = null;
    next.focus();
    // What came to have the focus takes no key that was on its way.
    if (next !== handedOver) this.guard();
  }

  /** What was answered gives the focus to what waits next, or keeps it until something does. */
  private handOver(answered: string | null): void {
    const root = this.root();
    if (root === null || !root.contains(document.activeElement)) return;
    const next = this.nextWaiting(answered);
    if (next !== null) next.focus();
    else if (answered === null) rest(root);
    else this.keepFocus(answered);
    this.handedOver = next === null && document.activeElement instanceof HTMLElement ? document.activeElement : null;
  }

  /** The card that waits for the person, first after one call and then before it. */
  private nextWaiting(after: string | null): HTMLElement | null {
    if (this.off || this.gone) return null;
    const { state } = this;
    const calls = callsInOrder(state);
    const from = calls.findIndex((call) => call.id === after) + 1;
    const asking = [...calls.slice(from), ...calls.slice(0, from)].filter(
      (call) => call.id !== after && this.asks(call, state),
    );
    const [next] = asking;
    if (next !== undefined) return this.element(next.id) ?? null;
    const pause = pauseOf(state);
    if (pause === null || this.budgetReplyOf(state, pause) !== "no") return null;
    return this.root()?.querySelector<HTMLElement>("[data-pause-id]") ?? null;
  }

  private asks(call: Call, state: RunState): boolean {
    return (needsYou(call) && this.pendingOf(call) === null) || this.asksWhatNow(call, state);
  }

  /** The focus stays on the card when the button that had it goes, or the next letter would be the notebook's. */
  private keepFocus(callId: string): void {
    const card = this.element(callId);
    if (card !== undefined && this.root()?.contains(document.activeElement)) card.focus();
  }

  element(callId: string): HTMLElement | undefined {
    const cards = this.root()?.querySelectorAll<HTMLElement>("[data-tool-call-id]") ?? [];
    return [...cards].find((card) => card.dataset["toolCallId"] === callId);
  }
}

function isSeen(element: HTMLElement): boolean {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom >= 0 && top <= window.innerHeight;
}
