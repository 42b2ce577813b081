/** Characters that can't be seen, or that change the order of what is seen, are shown as markers: `U+202E`. */

// Ignorable and bidirectional characters, controls but tab and line feed, line separators, spaces that are not " ", and
// the braille pattern without dots.
export const HIDDEN_CHARACTERS =
  /[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Zl}\p{Zp}\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufff9-\ufffb\u2800]|(?! )\p{Zs}/gu;
const SPLIT = new RegExp(`(${HIDDEN_CHARACTERS.source})`, "u");

/** A text's parts: those that are seen, and in between, at the odd places, the markers of those that are not. */
export function pieces(text: string): string[] {
  return text.split(SPLIT).map((piece, index) => (index % 2 === 0 ? piece : marker(piece)));
}

/** The same, for places that take plain text only. */
export function visible(text: string): string {
  return text.replaceAll(HIDDEN_CHARACTERS, marker);
}

export function marker(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
