/** Characters that can't be seen, or that change the order of what is seen, are shown as markers: `U+202E`. */

// Ignorable and bidirectional characters, controls but tab and line feed, line separators, spaces that are not " ", and
// the braille pattern without dots.
const HIDDEN =
  /[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Zl}\p{Zp}\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufff9-\ufffb\u2800]|(?! )\p{Zs}/u;
const HIDDEN_ALL = new RegExp(HIDDEN.source, "gu");

export type Piece = { readonly text: string; readonly hidden: boolean };

export function pieces(text: string): Piece[] {
  if (!HIDDEN.test(text)) return [{ text, hidden: false }];
  const found: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN_ALL)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index), hidden: false });
    found.push({ text: marker(match[0]), hidden: true });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from), hidden: false });
  return found;
}

/** The same, for places that take plain text only. */
export function visible(text: string): string {
  return pieces(text)
    .map((piece) => piece.text)
    .join("");
}

export function marker(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

export const HIDDEN_CHARACTERS = HIDDEN_ALL;
