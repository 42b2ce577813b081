/** Tells what the page has drawn again of a notebook, which JupyterLab does without a word. */
import type { NotebookPanel } from "@jupyterlab/notebook";

/** `tell` is given, once a frame, the cells that were drawn, hidden or unfolded in part. What is typed in them is no
 * such change: a notebook may have thousands of cells to look at. */
export function watchDrawn(panel: NotebookPanel, tell: (cells: ReadonlySet<Element>) => void): void {
  let drawn: Set<Element> | null = null;
  const changes = new MutationObserver((records) => {
    for (const { target } of records) {
      const part = target instanceof Element ? target.closest(".jp-InputArea-editor, .jp-Cell") : null;
      if (part?.matches(".jp-InputArea-editor") === true) continue;
      if (drawn === null) requestAnimationFrame(report);
      drawn ??= new Set();
      if (part !== null) drawn.add(part);
    }
  });
  const report = (): void => {
    const cells = drawn ?? new Set();
    drawn = null;
    if (!panel.isDisposed) tell(cells);
  };
  changes.observe(panel.content.node, { childList: true, subtree: true });
  panel.disposed.connect(() => changes.disconnect());
}
