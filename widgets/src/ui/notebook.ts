/** The notebook around a run's output: which keys reach it, and when its cell gets the focus. */
import { isComposing } from "./keys";

/** JupyterLab's mark of what takes its keys itself. Notebook 7 looks for it from the element with the focus upwards,
 * before that element gets the key, and its selectors match there: the mark has to be on that very element. */
export const SUPPRESS_SHORTCUTS = "data-lm-suppress-shortcuts";

/** A key that comes this soon after one in the output was meant for the output, wherever the focus went meanwhile. */
const MEANT_MS = 800;
/** A key of a card's buttons was meant for the card so long after the card has gone. Cards have no other letters. */
const LATE_MS = 2_000;
const CARD_KEY = /^[adelr]$/i;
/** Asks the JupyterLab extension to make a cell active that is out of view: a windowed notebook has taken it from the page. */
export const ACTIVATE_CELL = "agent-kernel:activate-cell";
const MODIFIERS = new Set(["Shift", "Control", "Alt", "AltGraph", "Meta", "CapsLock"]);

/** The record of a run. JupyterLab takes the attribute out of notebooks that it does not trust, and keeps the class. */
export const RECORD = ".agent-record, [data-agent-record]";
/** What a run has printed, folded beside its record. */
const FOLDED_TEXT = ".agent-text";
/** The keeper of keys in records: the first that comes, be it the JupyterLab extension or a widget of any version. */
const KEEPING = Symbol.for("agent-kernel: keys in records");

let pressedAt = Number.NEGATIVE_INFINITY;
let leftAt = Number.NEGATIVE_INFINITY;
let dropsAt: HTMLElement | null = null;
let dropping: ReturnType<typeof setTimeout> | undefined;

/** The JupyterLab or Notebook 7 cell of an output; `null` in other front ends. */
export function cellOf(output: Element): HTMLElement | null {
  return output.closest<HTMLElement>(".jp-Cell");
}

/** The active cell of the notebook that an output is in. */
export function activeCellAround(output: Element): HTMLElement | null {
  return output.closest(".jp-Notebook")?.querySelector<HTMLElement>(".jp-Cell.jp-mod-active") ?? null;
}

/** The recipient of a key that the output did not take. `run` is a key that runs the cell, `application` one with a modifier. */
export type Recipient = "nobody" | "cell" | "run" | "application";

export function recipientOf(event: KeyboardEvent, inField: boolean): Recipient {
  if (event.defaultPrevented || isComposing(event) || MODIFIERS.has(event.key)) return "nobody";
  const modified = event.ctrlKey || event.metaKey || event.altKey;
  if (event.key === "Escape" && !modified && !event.shiftKey) return "cell";
  if (event.key === "Enter") return !inField && !event.repeat && (modified || event.shiftKey) ? "run" : "nobody";
  // AltGr makes characters, and so does Option on a Mac.
  if (inField && (event.altKey || event.getModifierState("AltGraph"))) return "nobody";
  return modified || /^F\d+$/.test(event.key) ? "application" : "nobody";
}

/** Keeps a key in the output from the notebook, or gives it to whom it is for. */
export function passOn(event: KeyboardEvent, output: Element, recipient: Recipient, runs?: HTMLElement | null): void {
  pressedAt = Date.now();
  const cell = cellOf(output);
  // Where there is no such cell, the host keeps to its own rules for what is not a plain key.
  if (cell === null && recipient !== "nobody") return;
  event.stopImmediatePropagation();
  if (cell === null || recipient === "nobody") return;
  if (recipient === "application") {
    // At the body no selector of a notebook matches, and those of the application (save, palette) do.
    if (!document.body.dispatchEvent(new KeyboardEvent(event.type, event))) event.preventDefault();
    return;
  }
  event.preventDefault();
  // From here on the person means the cell.
  pressedAt = Number.NEGATIVE_INFINITY;
  stopDropping();
  const place = activate(cell, runs ?? cell);
  if (recipient === "run") place.dispatchEvent(new KeyboardEvent(event.type, event));
}

/** Makes the `wanted` cell of the notebook around `cell` active. Returns the one of both that has the focus. */
function activate(cell: HTMLElement, wanted: HTMLElement): HTMLElement {
  const place = wanted.isConnected ? wanted : cell;
  place.focus({ preventScroll: true });
  if (place !== wanted) cell.dispatchEvent(new CustomEvent(ACTIVATE_CELL, { bubbles: true, detail: { cell: wanted } }));
  return place;
}

/** JupyterLab takes Undo and the line break of Shift+Enter from fields in a cell, after it got their key. */
export function keepsTyping(el: HTMLElement): void {
  const keep = (event: InputEvent): void => {
    if (event.target instanceof HTMLTextAreaElement || event.target instanceof HTMLInputElement)
      event.stopPropagation();
  };
  el.addEventListener("beforeinput", keep, { capture: true });
}

/** Gives the focus of an output that is gone back to the cell that was active `before`. Keys that were on their way to the
 * output are dropped. */
export function leaveTo(cell: HTMLElement, before: HTMLElement): void {
  leftAt = Date.now();
  const place = activate(cell, before);
  dropsAt = place;
  // Gone elsewhere, be it into the record: keys there may go to another copy of this module.
  place.addEventListener("blur", stopDropping, { once: true });
  globalThis.addEventListener("keydown", dropWhatWasMeant, { capture: true });
  clearTimeout(dropping);
  dropping = setTimeout(stopDropping, LATE_MS);
}

function stopDropping(): void {
  dropsAt?.removeEventListener("blur", stopDropping);
  dropsAt = null;
  globalThis.removeEventListener("keydown", dropWhatWasMeant, { capture: true });
}

/** As long as the person types on, or holds a key. Shift+Enter goes on from the cell. */
function dropWhatWasMeant(event: KeyboardEvent): void {
  if (dropsAt === null || event.target !== dropsAt) return;
  const runsOn = event.key === "Enter" && event.shiftKey && !event.repeat;
  const elsewhere = event.key !== "Enter" && (event.ctrlKey || event.metaKey || event.altKey);
  if (runsOn || elsewhere || MODIFIERS.has(event.key)) return;
  const now = Date.now();
  const typing = now < pressedAt + MEANT_MS;
  if (!typing && !(CARD_KEY.test(event.key) && now < leftAt + LATE_MS)) return;
  pressedAt = now;
  clearTimeout(dropping);
  dropping = setTimeout(stopDropping, Math.max(MEANT_MS, leftAt + LATE_MS - now));
  event.preventDefault();
  event.stopImmediatePropagation();
}

/** A record is plain HTML, whose keys are looked after from here, once for a page. */
export function keepsKeysInRecords(): void {
  const page = globalThis as { [KEEPING]?: true };
  if (page[KEEPING]) return;
  page[KEEPING] = true;
  globalThis.addEventListener("keydown", keyInRecord, { capture: true });
}

function keyInRecord(event: KeyboardEvent): void {
  const record = event.target instanceof Element ? event.target.closest(`${RECORD}, ${FOLDED_TEXT}`) : null;
  if (record !== null) passOn(event, record, recipientOf(event, false));
}
