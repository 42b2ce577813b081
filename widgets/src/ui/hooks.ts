/** Hooks that several components have. */
import { useEffect, useState } from "preact/hooks";
import { randomId } from "../text/format";

/** Unique on the page. Preact's `useId` counts again in each view, and a page has a view for each run, so a label would
 * name another card's field, and two cards' choices would be one group. */
export function usePageId(): string {
  const [id] = useState(randomId);
  return id;
}

/** Renders once a second while something on screen counts them. */
export function useSeconds(active: boolean): void {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(() => tick((n) => n + 1), 1_000);
    return () => clearInterval(timer);
  }, [active]);
}
