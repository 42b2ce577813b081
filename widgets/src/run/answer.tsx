import type { ReadonlySignal } from "@preact/signals";
import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useContext, useLayoutEffect, useRef, useState } from "preact/hooks";
import { DrawingsContext } from "../card/context";
import { StreamingMarkdown } from "../text/markdown";
import { addCopyButtons } from "../ui/copying";
import { usePageId } from "../ui/hooks";
import { Icon } from "../ui/icon";
import { Plain } from "../ui/untrustedText";

interface Props {
  /** `null` for the message that is being written, which renders by itself as `growing` does. */
  text: string | null;
  growing: ReadonlySignal<string>;
}

/** One message of the model. The text is put in by hand, so that finished blocks are never touched again. */
export const Message = memo(function Message({ text, growing }: Props): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const drawings = useContext(DrawingsContext);
  const stream = useRef<StreamingMarkdown | null>(null);
  const streaming = text === null;
  const shown = text ?? growing.value;
  useLayoutEffect(() => {
    if (root.current === null) return;
    stream.current ??= new StreamingMarkdown(root.current, (block) => {
      addCopyButtons(block);
      drawings.typeset(block);
    });
    stream.current.show(shown, !streaming);
  }, [shown, streaming, drawings]);
  return <div class={`ak-answer ${streaming ? "ak-streaming" : ""}`} data-role="answer" ref={root} />;
});

export function Thinking({ thought }: { thought: ReadonlySignal<string> }): JSX.Element {
  const [open, setOpen] = useState(false);
  const id = usePageId();
  return (
    <div class="ak-card ak-thinking">
      <button type="button" class="ak-head" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
        <Icon name="run" tone="ak-calm ak-spin" />
        <span class="ak-muted">Thinking</span>
        <span class="ak-state">
          <Icon name={open ? "down" : "right"} tone="ak-chev" />
        </span>
      </button>
      <div id={id} class="ak-say ak-muted" hidden={!open}>
        {open && <Plain text={thought.value} />}
      </div>
    </div>
  );
}
