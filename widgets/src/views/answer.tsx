import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useLayoutEffect, useRef } from "preact/hooks";
import { StreamingMarkdown } from "../text/markdown";

/** One message of the model. The text is put in by hand, so that finished blocks are never touched again. */
export const Answer = memo(function Answer({ text, streaming }: { text: string; streaming: boolean }): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const stream = useRef<StreamingMarkdown | null>(null);
  useLayoutEffect(() => {
    if (root.current === null) return;
    stream.current ??= new StreamingMarkdown(root.current);
    stream.current.show(text);
    if (!streaming) stream.current.finish();
  }, [text, streaming]);
  return <div class={`ak-answer ${streaming ? "ak-streaming" : ""}`} data-role="answer" ref={root} />;
});
