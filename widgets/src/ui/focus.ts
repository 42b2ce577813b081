/** Keeps the focus where keys are safe: it goes from what is gone to its card, and from a run that is gone to the cell that
 * was active before. */
import { activeCellAround, cellOf, leaveTo, SUPPRESS_SHORTCUTS } from "./notebook";

/** By the cell of a run, the one that was active before the run's output took the focus. */
const activeBefore = new WeakMap<HTMLElement, HTMLElement>();

/** The cell that was active before an output took the focus; the output's own where no other was. */
export function cellBefore(output: Element): HTMLElement | null {
  const cell = cellOf(output);
  return (cell && activeBefore.get(cell)) ?? cell;
}

/** Watches over the focus inside of a run's output. Returns what ends that, to be called before the output goes. */
export function keepsFocus(el: HTMLElement): () => void {
  let last: HTMLElement | null = null;
  let card: string | null = null;
  let cell: HTMLElement | null = null;
  let before: HTMLElement | null = null;
  let pressedBefore: HTMLElement | null = null;

  // JupyterLab makes the cell active when it hears of the mouse, which is before the focus comes.
  const pressed = (): void => {
    if (last === null) pressedBefore = activeCellAround(el);
  };
  const released = (): void => {
    pressedBefore = null;
  };
  const entered = (event: FocusEvent): void => {
    if (!(event.target instanceof HTMLElement)) return;
    if (last === null) {
      before = pressedBefore ?? activeCellAround(el);
      const own = cellOf(el);
      if (own !== null && before !== null) activeBefore.set(own, before);
    }
    last = event.target;
    // Found now: when the output is replaced, it is no longer in its cell.
    cell = cellOf(el);
    card = last.closest("[data-tool-call-id]")?.getAttribute("data-tool-call-id") ?? null;
    if (!last.hasAttribute(SUPPRESS_SHORTCUTS)) last.setAttribute(SUPPRESS_SHORTCUTS, "true");
  };
  const left = (event: FocusEvent): void => {
    if (event.relatedTarget instanceof Node) {
      if (!el.contains(event.relatedTarget)) last = null;
      return;
    }
    // What is removed loses the focus as well, and what is in another window keeps it.
    queueMicrotask(() => {
      if (last?.isConnected && document.activeElement !== last) last = null;
    });
  };
  const rescue = (): void => {
    if (last === null || last.isConnected || !el.isConnected || isElsewhere()) return;
    rest(cardIn(el, card) ?? el.querySelector<HTMLElement>(".ak-run"));
  };

  const changes = new MutationObserver(rescue);
  const ends = new AbortController();
  const { signal } = ends;
  el.addEventListener("pointerdown", pressed, { capture: true, signal });
  el.addEventListener("click", released, { signal });
  el.addEventListener("focusin", entered, { signal });
  el.addEventListener("focusout", left, { signal });
  changes.observe(el, { childList: true, subtree: true });
  return () => {
    changes.disconnect();
    ends.abort();
    if (last !== null && cell?.isConnected && (el.contains(document.activeElement) || !isElsewhere()))
      leaveTo(cell, before ?? cell);
  };
}

/** The card of a call, whose id may be any text. */
export function cardIn(root: Element, callId: string | null): HTMLElement | null {
  const cards = [...root.querySelectorAll<HTMLElement>("[data-tool-call-id]")];
  return cards.find((card) => card.dataset["toolCallId"] === callId) ?? null;
}

/** Puts the focus on something that does not take it by itself, and takes it for that once only. */
export function rest(place: HTMLElement | null): void {
  if (place === null) return;
  if (!place.hasAttribute("tabindex")) {
    place.tabIndex = -1;
    place.addEventListener("blur", () => place.removeAttribute("tabindex"), { once: true });
  }
  place.focus({ preventScroll: true });
}

function isElsewhere(): boolean {
  return document.activeElement !== null && document.activeElement !== document.body;
}
