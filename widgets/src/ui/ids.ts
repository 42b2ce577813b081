/** Ids for elements that refer to each other. */
import { useState } from "preact/hooks";

/** Unique on the page. Preact's `useId` counts anew in each view, and a page has a view for each run, so a label would
 * name another card's field, and two cards' choices would be one group. */
export function usePageId(): string {
  const [id] = useState(newId);
  return id;
}

function newId(): string {
  // Not `randomUUID`, which a page that came over plain HTTP does not have.
  return `ak-${[...crypto.getRandomValues(new Uint32Array(2))].map((part) => part.toString(36)).join("-")}`;
}
