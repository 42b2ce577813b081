/** Text that someone else wrote: what hides in it is shown. */
import type { JSX } from "preact";
import { pieces } from "../text/invisible";

export function Plain({ text }: { text: string }): JSX.Element {
  return <>{pieces(text).map((piece) => (piece.hidden ? <span class="ak-hidden">{piece.text}</span> : piece.text))}</>;
}
