/** Keys of a part of the page: a key does what the button that shows it does, for as long as that button is there. A letter
 * in a field is text, and a key that is held counts once. */

export type Key = Pick<
  KeyboardEvent,
  "key" | "repeat" | "shiftKey" | "ctrlKey" | "metaKey" | "altKey" | "isComposing" | "keyCode"
>;

/** Where a key was pressed. `line` is a field in which Enter sends. */
export type Field = "none" | "choice" | "line" | "text";

/** Whether a key is part of a character that is being put together, which is the field's own. */
export function isComposing(key: Pick<Key, "isComposing" | "keyCode">): boolean {
  // Safari has ended the composition when it reports the Enter that ends it; this code says what it was.
  return key.isComposing || key.keyCode === 229;
}

/** A key's name, as in `aria-keyshortcuts`; `null` for one that is text, or the notebook's. */
export function keyName(key: Key, field: Field): string | null {
  if (key.repeat || isComposing(key) || key.altKey) return null;
  if (key.key === "Escape") return "Escape";
  const control = key.ctrlKey || key.metaKey;
  if (key.key === "Enter" && control) return "Control+Enter";
  if (key.key === "Enter" && field === "line" && !key.shiftKey) return "Enter";
  if (control || field === "line" || field === "text") return null;
  if (key.key === "ArrowUp" || key.key === "ArrowDown") return field === "choice" || key.shiftKey ? null : key.key;
  if (/^[1-9]$/.test(key.key)) return key.key;
  if (!/^[a-z]$/i.test(key.key)) return null;
  return (key.shiftKey ? "Shift+" : "") + key.key.toUpperCase();
}

/** The kind of field in which a key was pressed. A field where Enter sends is marked `data-enter="send"`. */
export function fieldOf(target: EventTarget | null): Field {
  if (!(target instanceof Element)) return "none";
  if (target.closest("input[type=radio]")) return "choice";
  if (target.closest("[data-enter=send]")) return "line";
  return target.closest("input, textarea, select, [contenteditable=true], .cm-editor") ? "text" : "none";
}

/** The name of a key that nobody has taken: the editor's list takes Escape, and a widget that a call has shown any key. */
export function keyOf(event: KeyboardEvent): string | null {
  if (event.defaultPrevented || !(event.target instanceof Element) || event.target.closest(".ak-drawn")) return null;
  return keyName(event, fieldOf(event.target));
}

/** Presses what has a key in the first of these parts of the page that has something with it. False where none has. */
export function pressByKey(event: KeyboardEvent, ...parts: readonly (Element | null | undefined)[]): boolean {
  const name = keyOf(event);
  for (const part of name === null ? [] : parts) {
    const all = [...(part?.querySelectorAll<HTMLElement>(`[aria-keyshortcuts~="${name}"]`) ?? [])];
    // The buttons of a panel come before those above it, which were there when it opened.
    const button = all.findLast((one) => one.closest(".ak-drawn") === null);
    if (button === undefined) continue;
    event.preventDefault();
    button.click();
    return true;
  }
  return false;
}
