/** Keys of a part of the page: a key does what the button that shows it does, for as long as that button is there. */
import { createContext } from "preact";
import { useContext, useLayoutEffect, useRef } from "preact/hooks";
import { fieldOf, keyName } from "./keyboard";

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

/** Has `keys` do what `press` does, where this component is on the page: in the scope around it, or in one of its own. */
export function useKeys(keys: readonly string[], press: () => void, own?: KeyScope): void {
  const around = useContext(KeyScopeContext);
  const scope = own ?? around;
  const latest = useRef(press);
  latest.current = press;
  useLayoutEffect(() => scope?.bind(keys, () => latest.current()), [scope, keys]);
}
