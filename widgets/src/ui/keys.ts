/** Keys of a part of the page: a key does what the button that shows it does, for as long as that button is there. A letter
 * in a field is text, and a key that is held counts once. */
import { createContext } from "preact";
import { useContext, useLayoutEffect, useRef } from "preact/hooks";

interface Binding {
  readonly keys: readonly string[];
  readonly press: () => void;
}

export class KeyScope {
  private readonly bindings: Binding[] = [];

  /** What this scope has no binding for, the one around it may have. */
  constructor(private readonly around: KeyScope | null = null) {}

  bind(keys: readonly string[], press: () => void): () => void {
    const binding = { keys, press };
    this.bindings.push(binding);
    return () => void this.bindings.splice(this.bindings.indexOf(binding), 1);
  }

  /** Does what a key stands for here. False where it stands for nothing. */
  take(event: KeyboardEvent): boolean {
    if (event.defaultPrevented) return false; // such as Escape in the editor's list of completions
    // A widget that a call has shown has keys of its own.
    if (!(event.target instanceof Element) || event.target.closest(".ak-drawn") !== null) return false;
    const name = keyName(event, fieldOf(event.target));
    const taken = name !== null && this.press(name);
    if (taken) event.preventDefault();
    return taken;
  }

  private press(name: string): boolean {
    // What was shown last comes first: the buttons of a panel before those that were there when it opened.
    const binding = this.bindings.findLast((one) => one.keys.includes(name));
    if (binding === undefined) return this.around?.press(name) ?? false;
    binding.press();
    return true;
  }
}

export const KeyScopeContext = createContext<KeyScope | null>(null);

/** Has `keys` do what `press` does, where this component is on the page. */
export function useKeys(keys: readonly string[], press: () => void): void {
  const scope = useContext(KeyScopeContext);
  const latest = useRef(press);
  latest.current = press;
  useLayoutEffect(() => scope?.bind(keys, () => latest.current()), [scope, keys]);
}

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
