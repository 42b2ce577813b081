import type { ReadonlySignal } from "@preact/signals";
import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useContext, useLayoutEffect, useRef } from "preact/hooks";
import { addCopyButtons } from "../ui/copying";
import { StreamingMarkdown } from "../text/markdown";
import { TypesetContext } from "../card/context";

interface Props {
  /** `null` for the message that is being written, which renders by itself as `growing` does. */
  text: string | null;
  growing: ReadonlySignal<string>;
}

/** One message of the model. */
export const Message = memo(function Message({ text, growing }: Props): JSX.Element {
  return <Answer text={text ?? growing.value} streaming={text === null} />;
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
