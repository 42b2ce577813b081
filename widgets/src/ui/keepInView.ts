/** Cards fold, and the record is short where they were long: a page that was scrolled down in them would be left with
 * nothing to see. */

/** JupyterLab holds an output's height for a moment when it is replaced. */
const SETTLED_MS = 3_000;

/** Brings the cell of a run back to view where it shrinks out of view, also when its cards are replaced. Returns what
 * ends that. */
export function keepsInView(el: HTMLElement): () => void {
  if (typeof IntersectionObserver === "undefined") return () => undefined;
  let cell: Element | null = null;
  let seen = false;
  // Sizes are told before intersections: `seen` is as it was before.
  const sizes = new ResizeObserver(() => {
    if (seen && cell !== null) bringBack(cell);
  });
  const views = new IntersectionObserver((entries) => {
    if (!el.isConnected) return;
    seen = entries.at(-1)?.isIntersecting ?? false;
    if (cell === null) {
      cell = el.closest(".jp-Cell");
      if (cell !== null) sizes.observe(cell);
    }
  });
  views.observe(el);
  return () => {
    views.disconnect();
    setTimeout(() => sizes.disconnect(), SETTLED_MS);
  };
}

function bringBack(cell: Element): void {
  const page = cell.closest(".jp-WindowedPanel-outer, .jp-Notebook");
  if (page === null) return;
  const above = cell.getBoundingClientRect().bottom < page.getBoundingClientRect().top + 40;
  if (above) cell.scrollIntoView({ block: "nearest" });
}
