/** The model's reasoning before its answer, as one line that can be opened. It goes when the answer begins. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ReadonlySignal } from "@preact/signals";
import { Icon } from "../ui/icon";
import { usePageId } from "../ui/ids";
import { Plain } from "../ui/untrustedText";

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
