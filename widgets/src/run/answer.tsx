import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useContext, useLayoutEffect, useRef } from "preact/hooks";
import { addCopyButtons } from "../ui/copying";
import { StreamingMarkdown } from "../text/markdown";
import { TypesetContext, useGrowingText } from "./context";

/** One message of the model; `null` is the one that is being written, which renders by itself as its text grows. */
export const Message = memo(function Message({ text }: { text: string | null }): JSX.Element {
  const actions = useGrowingText(text === null);
  return <Answer text={text ?? actions.written()} streaming={text === null} />;
});

/** The text is put in by hand, so that finished blocks are never touched again. */
const Answer = memo(function Answer({ text, streaming }: { text: string; streaming: boolean }): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const typeset = useContext(TypesetContext);
  const stream = useRef<StreamingMarkdown | null>(null);
  useLayoutEffect(() => {
    if (root.current === null) return;
    stream.current ??= new StreamingMarkdown(root.current, (block) => {
      addCopyButtons(block);
      typeset(block);
    });
    stream.current.show(text);
    if (!streaming) stream.current.finish();
  }, [text, streaming, typeset]);
  return <div class={`ak-answer ${streaming ? "ak-streaming" : ""}`} data-role="answer" ref={root} />;
});
