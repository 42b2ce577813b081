/** Moves the focus after an answer: to the next card that waits; until there is one, it stays in the run. */
import { cardIn, rest } from "../ui/focus";
import type { CallModel, RunStore } from "./run";

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
