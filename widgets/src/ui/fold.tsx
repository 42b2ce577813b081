import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { usePageId } from "./hooks";
import { Icon } from "./icon";

interface Props {
  title: string;
  /** Beside the title, at the end of the line. */
  end?: string | null;
  /** What is shown once it is opened. */
  children: () => ComponentChildren;
}

/** A line that opens what is below it. */
export function Fold({ title, end, children }: Props): JSX.Element {
  const [open, setOpen] = useState(false);
  const id = usePageId();
  return (
    <>
      <button type="button" class="ak-fold" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
        <Icon name={open ? "down" : "right"} tone="ak-chev" />
        <span>{title}</span>
        {end !== undefined && <span class="ak-end">{end}</span>}
      </button>
      <div id={id} class="ak-folded-call" hidden={!open}>
        {open && children()}
      </div>
    </>
  );
}
