/** Text that someone else wrote: what hides in it is shown. */
import type { ComponentChild, JSX } from "preact";
import { pieces } from "../text/invisible";

export function Plain({ text }: { text: string }): JSX.Element {
  return <>{plain(text)}</>;
}

/** The same without a component, where there are many: what is shown of most texts is the text. */
export function plain(text: string): ComponentChild {
  const found = pieces(text);
  if (found.length === 1 && found[0]?.hidden === false) return found[0].text;
  return <>{found.map((piece) => (piece.hidden ? <span class="ak-hidden">{piece.text}</span> : piece.text))}</>;
}
