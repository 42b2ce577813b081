/** What a key means on a card. A letter in a field is text, and a key that is held counts once. */

export type CardCommand =
  | {
      readonly kind:
        "approve" | "deny" | "edit" | "allow" | "back" | "send" | "next" | "previous" | "approve-all" | "deny-all";
    }
  | { readonly kind: "choose"; readonly number: number };

export interface Key {
  readonly key: string;
  readonly repeat: boolean;
  readonly shiftKey: boolean;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
  readonly isComposing: boolean;
  /** Safari has ended the composition when it tells of the Enter that ends it; this code says what it was. */
  readonly keyCode?: number;
}

export interface Place {
  readonly panel: "none" | "reason" | "edit" | "allow";
  readonly field: "none" | "choice" | "line" | "text";
}

const LETTERS = { a: "approve", d: "deny", e: "edit", l: "allow" } as const;
const ALL = { a: "approve-all", d: "deny-all" } as const;

/** Whether a key is part of a character that is being put together, which is the field's own. */
export function isComposing(key: Pick<Key, "isComposing" | "keyCode">): boolean {
  return key.isComposing || key.keyCode === 229;
}

export function cardCommand(key: Key, place: Place): CardCommand | null {
  if (key.repeat || isComposing(key) || key.altKey) return null;
  if (key.key === "Escape") return place.panel === "none" ? null : { kind: "back" };
  if (key.key === "Enter" && (key.ctrlKey || key.metaKey)) return { kind: "send" };
  if (key.ctrlKey || key.metaKey) return null;
  if (key.key === "Enter" && place.field === "line" && !key.shiftKey) return { kind: "send" };
  if (place.field === "line" || place.field === "text") return null;
  if (/^[1-9]$/.test(key.key)) return { kind: "choose", number: Number(key.key) };
  if (place.field === "choice" && key.key.startsWith("Arrow")) return null;
  if (key.shiftKey && key.key.startsWith("Arrow")) return null;
  if (key.key === "ArrowDown") return { kind: "next" };
  if (key.key === "ArrowUp") return { kind: "previous" };
  return letterCommand(key);
}

function letterCommand(key: Key): CardCommand | null {
  const letter = key.key.toLowerCase();
  const kind = key.shiftKey ? ALL[letter as keyof typeof ALL] : LETTERS[letter as keyof typeof LETTERS];
  return kind === undefined ? null : { kind };
}

/** What kind of field a key was pressed in. A field where Enter sends is marked `data-enter="send"`. */
export function fieldOf(target: EventTarget | null): Place["field"] {
  if (!(target instanceof Element)) return "none";
  if (target.closest("input[type=radio]")) return "choice";
  if (target.closest("[data-enter=send]")) return "line";
  return target.closest("input, textarea, select, [contenteditable=true], .cm-editor") ? "text" : "none";
}
