/** What a person does with a run on one view: which panels are open, what is written in them, and what is sent. */
import type { CardCommand } from "../keyboard";
import type { Channel } from "../link/channel";
import type { PendingDecision } from "../link/decisions";
import type { Hearing } from "../link/transport";
import type { ApprovalResponseCommand, BudgetLimits, ClientCommand, PauseView } from "../protocol";
import { asksWhatNow, callsInOrder, isMoreText, needsYou, runEnded, type Call, type RunState } from "../state";
import type { Actions, Choice, Panel, Raising, Retry, Undo } from "./context";
import { Draft } from "./edit";
import { mayAlwaysAllow } from "./allow";
import { BudgetAnswer } from "./raising";

/** For this long after a decision no other card takes one: a second click was meant for the first card. */
const GUARD_MS = 400;

export class RunDesk implements Actions {
  stopping = false;
  /** Stop or Cancel was pressed. */
  interrupting = false;
  guarded = false;
  /** True once the page shows the present, not the past that is read again. */
  live = false;
  private readonly panels = new Map<string, Panel>();
  private readonly opened = new Map<string, boolean>();
  private readonly drafts = new Map<string, Draft>();
  private readonly retried = new Set<string>();
  private readonly continued = new Set<string>();
  private readonly takenBack = new Set<string>();
  /** How much the run showed when it was last tried again: one click, one try. */
  private triedAt = -1;
  private readonly answer: BudgetAnswer;
  private focusedCall: string | null = null;
  private render: () => void = () => undefined;
  private readonly readers = new Set<() => void>();
  private heardState: RunState;
  /** More than a growing text has changed since the last frame. */
  private stale = false;
  private frame: { cancel(): void } | null = null;

  constructor(
    private readonly channel: Channel,
    private readonly runId: string,
    private readonly root: () => HTMLElement | null,
  ) {
    this.answer = new BudgetAnswer(channel, runId);
    this.heardState = this.state;
  }

  /** Renders at most once a frame, however many events come. */
  watch(render: () => void): () => void {
    this.render = render;
    this.heardState = this.state;
    const stop = this.channel.subscribe(() => this.heard());
    render();
    const settle = setTimeout(() => (this.live = true), 1_000);
    return () => {
      stop();
      clearTimeout(settle);
      this.frame?.cancel();
    };
  }

  written(): string {
    return this.state.tail?.text ?? "";
  }

  thought(): string {
    return this.state.thinking ?? "";
  }

  watchText(render: () => void): () => void {
    this.readers.add(render);
    return () => this.readers.delete(render);
  }

  get hearing(): Hearing {
    return this.channel.hearing;
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
    return id === null ? undefined : this.state.calls[id];
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
    const draft = this.drafts.get(callId) ?? new Draft(() => this.state.calls[callId] as Call, () => this.schedule());
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

  /** Offered only where it works: in a run that goes on, over a line that is there. */
  retryOf(call: Call, state: RunState): Retry {
    if (call.state === "unknown") return this.lookOf(call, state);
    if (call.state !== "error") return "no";
    if (this.retried.has(call.id)) return "asked";
    return this.goesOn(state) ? "offered" : "no";
  }

  /** An answer that the brain did not take makes room for another. */
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

  undo(call: Call): void {
    if (this.undoOf(call, this.state) !== "offered") return;
    this.keepFocus(call.id);
    this.takenBack.add(call.id);
    this.channel.send({ type: "tool_undo", tool_call_id: call.id });
  }

  private goesOn(state: RunState): boolean {
    return state.run?.status === "running" && !this.stopping && this.channel.connection.status === "open";
  }

  /** Whether the person can say what to do about a call whose outcome is unknown. */
  asksWhatNow(call: Call, state: RunState): boolean {
    return asksWhatNow(call, state) && this.retryOf(call, state) === "offered";
  }

  retry(call: Call): void {
    if (this.retryOf(call, this.state) !== "offered") return;
    this.keepFocus(call.id);
    this.retried.add(call.id);
    this.channel.send({ type: "tool_retry", tool_call_id: call.id });
  }

  /** Go on: the model is told that the outcome is unknown. */
  proceed(call: Call): void {
    if (this.retryOf(call, this.state) !== "offered") return;
    this.keepFocus(call.id);
    this.continued.add(call.id);
    this.channel.send({ type: "tool_continue", tool_call_id: call.id });
  }

  focused(target: EventTarget | null): void {
    const card = target instanceof Element ? target.closest("[data-tool-call-id]") : null;
    const id = card?.getAttribute("data-tool-call-id") ?? null;
    if (id === this.focusedCall) return;
    this.focusedCall = id;
    this.schedule();
  }

  readonly toggle = (call: Call): void => {
    const card = this.element(call.id)?.querySelector("button.ak-head");
    this.opened.set(call.id, card?.getAttribute("aria-expanded") !== "true");
    this.schedule();
  };

  openPanel(call: Call, panel: Panel): void {
    if (panel !== "none" && (call.state !== "awaiting_approval" || this.off || this.pendingOf(call) !== null)) return;
    this.keepFocus(call.id);
    this.panels.set(call.id, panel);
    this.schedule();
  }

  decide(call: Call, choice: Choice): void {
    if (this.guarded || call.state !== "awaiting_approval" || call.approvalId === null || call.digest === null) return;
    const sent = this.channel.decide(commandFor(choice, call.approvalId, call.digest), call.id);
    if (!sent) return;
    this.keepFocus(call.id);
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
    if (calls[0]) this.keepFocus(calls[0].id);
    this.guard();
  }

  takeBack(approvalId: string): void {
    this.channel.takeBack(approvalId);
  }

  send(command: ClientCommand): void {
    if (command.type === "tool_cancel") this.interrupting = true;
    this.channel.send(command);
  }

  stop(): void {
    if (this.stopping || runEnded(this.state)) return;
    this.stopping = this.interrupting = true;
    this.channel.send({ type: "cancel", run_id: this.runId });
    this.root()?.querySelector<HTMLElement>(".ak-header button[aria-disabled], .ak-badge")?.focus();
  }

  /** True where the key was meant for the card. */
  obey(command: CardCommand, call: Call): boolean {
    const waits = call.state === "awaiting_approval" && this.pendingOf(call) === null && !this.off;
    const panel = this.panelOf(call.id);
    switch (command.kind) {
      case "next":
      case "previous":
        return this.move(call, command.kind === "next" ? 1 : -1);
      case "choose":
        return this.choose(call, command.number);
      case "back":
        this.openPanel(call, "none");
        return true;
      case "send":
        return this.sendPanel(call, panel, waits);
      case "approve-all":
      case "deny-all":
        return this.answerAll(command.kind === "approve-all");
      case "approve":
        if (waits && panel !== "edit") this.decide(call, { kind: "approve" });
        return waits;
      case "deny":
        if (waits && panel === "reason") this.sendPanel(call, panel, waits);
        else if (waits && !this.guarded) this.openPanel(call, "reason");
        return waits;
      case "edit":
      case "allow":
        if (command.kind === "allow" && !mayAlwaysAllow(call)) return false;
        if (waits && !this.guarded) this.openPanel(call, command.kind);
        return waits;
    }
  }

  raisingOf(state: RunState, pause: PauseView): Raising {
    return this.answer.stateOf(state, pause);
  }

  raiseBudget(pause: PauseView, add: BudgetLimits): void {
    if (this.guarded || this.off || this.raisingOf(this.state, pause) !== "no") return;
    // The card goes when the run goes on; the focus stays in the run.
    if (this.root()?.contains(document.activeElement)) this.root()?.querySelector<HTMLElement>(".ak-badge")?.focus();
    this.answer.send(this.state, pause, add);
    this.guard();
  }

  takeBackRaise(): void {
    this.answer.takeBack();
    this.schedule();
  }

  /** Whether a run that ended because the model failed can go on. */
  mayTryAgain(state: RunState): boolean {
    const failed = state.run?.status === "error" && state.run.error?.code === "LLM_ERROR";
    return failed && this.channel.outlivesRuns && this.channel.isNewest(this.runId) && this.channel.connection.status === "open" && this.triedAt !== state.items.length;
  }

  tryAgain(): void {
    this.triedAt = this.state.items.length;
    this.root()?.querySelector<HTMLElement>(".ak-badge")?.focus();
    this.channel.send({ type: "run_retry", run_id: this.runId });
    this.schedule();
  }

  private get state(): RunState {
    return this.channel.state(this.runId);
  }

  private heard(): void {
    const before = this.heardState;
    this.heardState = this.state;
    if (isMoreText(before, this.heardState)) this.nextFrame();
    else this.schedule();
  }

  private schedule(): void {
    this.stale = true;
    this.nextFrame();
  }

  private nextFrame(): void {
    if (this.frame !== null) return;
    const show = (): void => {
      this.frame = null;
      const { stale } = this;
      this.stale = false;
      if (stale) this.render();
      for (const read of this.readers) read();
    };
    // A page in the background paints no frames, and is still read out.
    if (document.hidden) {
      const timer = setTimeout(show, 200);
      this.frame = { cancel: () => clearTimeout(timer) };
    } else {
      const frame = requestAnimationFrame(show);
      this.frame = { cancel: () => cancelAnimationFrame(frame) };
    }
  }

  private guard(): void {
    this.guarded = true;
    setTimeout(() => {
      this.guarded = false;
      this.schedule();
    }, GUARD_MS);
    this.schedule();
  }

  private sendPanel(call: Call, panel: Panel, waits: boolean): boolean {
    if (call.name === "ask_user" && call.state === "executing") {
      this.element(call.id)?.querySelector<HTMLElement>(".ak-primary")?.click();
      return true;
    }
    if (!waits) return false;
    if (panel === "reason") this.decide(call, { kind: "deny", reason: this.draftOf(call.id).reason.text });
    else if (panel === "edit") this.decide(call, this.draftOf(call.id).choice());
    return panel === "reason" || panel === "edit";
  }

  private answerAll(approved: boolean): boolean {
    const calls = this.askable(callsInOrder(this.state).filter((call) => call.state === "awaiting_approval"));
    if (calls.length < 2) return false;
    this.decideAll(calls, approved);
    return true;
  }

  private move(call: Call, by: 1 | -1): boolean {
    const cards = callsInOrder(this.state);
    const next = cards[cards.findIndex((one) => one.id === call.id) + by];
    if (next !== undefined) this.element(next.id)?.focus();
    return true;
  }

  private choose(call: Call, number: number): boolean {
    const choice = this.element(call.id)?.querySelector<HTMLElement>(`[data-choice="${number}"]`);
    choice?.click();
    return choice !== null && choice !== undefined;
  }

  /** The focus stays on the card when the button that had it goes, or the next letter would be the notebook's. */
  private keepFocus(callId: string): void {
    const card = this.element(callId);
    if (card !== undefined && this.root()?.contains(document.activeElement)) card.focus();
  }

  private element(callId: string): HTMLElement | undefined {
    const cards = this.root()?.querySelectorAll<HTMLElement>("[data-tool-call-id]") ?? [];
    return [...cards].find((card) => card.dataset["toolCallId"] === callId);
  }
}

function commandFor(choice: Choice, approvalId: string, digest: string): ApprovalResponseCommand {
  const answer = { type: "approval_response", approval_id: approvalId, digest } as const;
  switch (choice.kind) {
    case "approve":
      return { ...answer, approved: true };
    case "deny":
      return choice.reason.trim() === "" ? { ...answer, approved: false } : { ...answer, approved: false, reason: choice.reason.trim() };
    case "edit":
      return { ...answer, approved: true, edited_input: choice.input };
    case "always":
      return { ...answer, approved: true, scope: choice.scope, rule: choice.rule };
  }
}
