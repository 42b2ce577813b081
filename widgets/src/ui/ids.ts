/** Ids for elements that refer to each other. */
import { useState } from "preact/hooks";
import { randomId } from "../text/ids";

/** Unique on the page. Preact's `useId` counts again in each view, and a page has a view for each run, so a label would
 * name another card's field, and two cards' choices would be one group. */
export function usePageId(): string {
  const [id] = useState(randomId);
  return id;
}
