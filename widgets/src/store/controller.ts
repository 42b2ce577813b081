/** Controller for one rendered run: what a person does becomes commands, and the focus goes on. */
import { batch } from "@preact/signals";
import type { Channel } from "../channel/channel";
import type { ApprovalResponseCommand, BudgetLimits, ClientCommand, DelayView, PauseView } from "../protocol";
import { type CallModel, type Panel, RunStore } from "./run";
import { cardIn, rest } from "../ui/focus";

/** For this long after a decision no other card takes one: a second click was meant for the first card. */
const GUARD_MS = 400;

/** What a person decides of a call, as a command says it. */
export type Decision = Omit<ApprovalResponseCommand, "type" | "approval_id" | "digest">;

export class RunController {
  readonly store: RunStore;
  readonly focus: FocusOrder;
  private guardTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly channel: Channel,
    private readonly runId: string,
    private readonly root: () => HTMLElement | null,
  ) {
    this.store = new RunStore(channel, runId);
    this.focus = new FocusOrder(this.store, root);
  }

  /** The runtime's present moment (ms), or the last one that is known of: without a connection the clocks stand still. */
  now(): number {
    const { status, since } = this.store.connection.value;
    return (status === "open" ? Date.now() : since) - this.channel.skew;
  }

  openPanel(card: CallModel, panel: Panel): void {
    if (this.store.guarded.peek()) return;
    this.focus.keep(card.id);
    card.panel.value = panel;
  }

  decide(card: CallModel, decision: Decision): void {
    if (this.store.guarded.peek() || !this.sendDecision(card, decision)) return;
    // What was edited is there again, if the runtime does not take it.
    this.afterAnswer(card.id, "edited_input" in decision ? [] : [card]);
  }

  decideAll(approved: boolean): void {
    if (this.store.guarded.peek()) return;
    const cards = this.store.answerable.peek();
    for (const card of cards) this.sendDecision(card, { approved });
    this.afterAnswer(cards[0]?.id ?? null, cards);
  }

  /** Unsend a command. */
  takeBack(id: string): void {
    this.channel.takeBack(id);
    this.store.refresh();
  }

  send(command: ClientCommand): void {
    this.channel.send(command, this.runId);
    this.store.refresh();
  }

  /** Sends the answer to a question, or that there is none. */
  answer(card: CallModel, command: ClientCommand): void {
    this.send(command);
    this.focus.handOver(card.id);
    this.guard();
  }

  /** `outside`: a shell command, without its walls. */
  retry(card: CallModel, outside = false): void {
    if (card.retry.peek() !== "offered") return;
    card.asked.value = "retry";
    this.send({ type: "tool_retry", tool_call_id: card.id, ...(outside && { outside }) });
    this.focus.handOver(card.id);
  }

  /** Go on: the model is told that the outcome is unknown. */
  proceed(card: CallModel): void {
    if (card.retry.peek() !== "offered") return;
    card.asked.value = "continue";
    this.send({ type: "tool_continue", tool_call_id: card.id });
    this.focus.handOver(card.id);
  }

  /** Puts back what a call changed, or undoes that. */
  undo(card: CallModel): void {
    const undo = card.undo.peek();
    if (undo !== "offered" && undo !== "redo") return;
    card.undoAsked.value = card.call.peek();
    this.send({ type: "tool_undo", tool_call_id: card.id, ...(undo === "redo" && { redo: true }) });
    this.focus.keep(card.id);
  }

  undoAll(): void {
    // The last first: an earlier change of a file is as it was left once the later one is undone.
    for (const card of this.store.calls.peek().toReversed()) if (card.undo.peek() === "offered") this.undo(card);
  }

  /** Puts the focus on the card so many places further. */
  move(from: string, by: number): void {
    const cards = this.store.calls.peek();
    const next = cards[cards.findIndex((card) => card.id === from) + by];
    if (next !== undefined) this.focus.cardOf(next.id)?.focus();
  }

  stop(): void {
    const { store } = this;
    if (store.stopping.peek() || store.ended.peek()) return;
    store.stopping.value = true;
    this.send({ type: "cancel", run_id: this.runId });
    this.root()?.querySelector<HTMLElement>(".ak-badge")?.focus();
  }

  raiseBudget(pause: PauseView, add: BudgetLimits, withoutUsd = false): void {
    const { store } = this;
    if (store.guarded.peek() || store.off.peek() || store.raise.peek() !== null) return;
    const { pause_id } = pause;
    const without = withoutUsd ? { without_usd: true } : {};
    this.channel.send({ type: "budget", run_id: this.runId, pause_id, add, ...without }, this.runId);
    // The card goes when the run goes on; the focus stays in the run.
    this.afterAnswer(null, []);
  }

  tryAgain(): void {
    this.store.triedAt.value = this.store.items.peek().length;
    this.send({ type: "run_retry", run_id: this.runId });
    this.focus.handOver(null);
  }

  tryNow(delay: DelayView): void {
    this.store.hurried.value = { since: delay.since, at: new Date(this.now()).toISOString() };
    this.send({ type: "try_now", run_id: this.runId });
  }

  /** What came to have the focus takes no key that was on its way. */
  cameToAsk(): void {
    if (this.focus.goOn()) this.guard();
  }

  focused({ target, relatedTarget }: FocusEvent): void {
    this.focus.moved(relatedTarget);
    const card = target instanceof Element ? target.closest("[data-tool-call-id]") : null;
    this.store.focusedCall.value = card?.getAttribute("data-tool-call-id") ?? null;
  }

  private sendDecision(card: CallModel, decision: Decision): boolean {
    const { approval_id, digest, state } = card.call.peek();
    if (state !== "awaiting_approval") return false;
    const command = { type: "approval_response", approval_id, digest, ...decision } as const;
    return this.channel.decide(command, card.id, this.runId);
  }

  /** `answered` is the card that gives the focus away; the panels of the `closed` ones go with the answer. */
  private afterAnswer(answered: string | null, closed: readonly CallModel[]): void {
    batch(() => {
      for (const card of closed) card.panel.value = "none";
      this.store.refresh();
    });
    this.focus.handOver(answered);
    this.guard();
  }

  private guard(): void {
    clearTimeout(this.guardTimer);
    this.store.guarded.value = true;
    this.guardTimer = setTimeout(() => (this.store.guarded.value = false), GUARD_MS);
  }
}

export class FocusOrder {
  /** Where an answer left the focus, for want of something else that waits. */
  private left: HTMLElement | null = null;
  /** Whether something was answered since the focus came into the run. */
  answered = false;

  constructor(
    private readonly store: RunStore,
    private readonly root: () => HTMLElement | null,
  ) {}

  /** An answered card gives the focus to the next one that waits, or keeps it until there is one. */
  handOver(answered: string | null): void {
    const root = this.root();
    if (root === null || !root.contains(document.activeElement)) return;
    this.answered = true;
    const next = this.nextWaiting(answered);
    if (next !== null) next.focus();
    else if (answered === null) rest(root);
    else this.keep(answered);
    this.left = next === null && document.activeElement instanceof HTMLElement ? document.activeElement : null;
  }

  /** The focus that an answer left goes on to what waits now, wherever that is seen. True where it went elsewhere. */
  goOn(): boolean {
    const { left } = this;
    if (left === null) return false;
    const stayed = document.activeElement === left;
    const next = stayed && isSeen(left) ? this.nextWaiting(null) : null;
    if (!stayed || next !== null) this.left = null;
    next?.focus();
    return next !== null && next !== left;
  }

  /** The focus has moved, within the run or into it: where an answer had left it, it is no more. */
  moved(from: EventTarget | null): void {
    if (document.activeElement !== this.left) this.left = null;
    if (from instanceof Node && !this.root()?.contains(from)) this.answered = false;
  }

  /** The focus stays on the card when the button that had it goes, or the next letter would be the notebook's. */
  keep(callId: string): void {
    if (this.root()?.contains(document.activeElement)) this.cardOf(callId)?.focus();
  }

  cardOf(callId: string): HTMLElement | null {
    const root = this.root();
    return root && cardIn(root, callId);
  }

  /** The cards that wait for the person, first those after one call and then those before it. */
  private nextWaiting(after: string | null): HTMLElement | null {
    const { store } = this;
    if (store.off.peek() || store.gone.peek()) return null;
    const cards = store.calls.peek();
    const from = cards.findIndex((card) => card.id === after) + 1;
    const asks = (card: CallModel): boolean => card.id !== after && (card.waits.peek() || card.asksWhatNow.peek());
    const next = [...cards.slice(from), ...cards.slice(0, from)].find(asks);
    if (next !== undefined) {
      const card = this.cardOf(next.id);
      // Who is asked for words can write them at once.
      return card?.querySelector<HTMLElement>("[data-takes-focus]") ?? card;
    }
    if (store.pause.peek() === null || store.raise.peek() !== null) return null;
    return this.root()?.querySelector<HTMLElement>("[data-pause-id]") ?? null;
  }
}

function isSeen(element: HTMLElement): boolean {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom >= 0 && top <= window.innerHeight;
}
