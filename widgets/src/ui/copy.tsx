import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { copyButton } from "./copying";

/** Copies exactly `text`, which may be shown with its hidden characters written out. */
export function Copy({ text }: { text: string }): JSX.Element {
  const place = useRef<HTMLSpanElement>(null);
  const current = useRef(text);
  current.current = text;
  useLayoutEffect(() => place.current?.replaceChildren(copyButton(() => current.current)), []);
  return <span class="ak-copy-place" ref={place} />;
}
