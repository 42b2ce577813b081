/** Rows and buttons that stand in the page, not in the notebook. */
import type { NotebookPanel } from "@jupyterlab/notebook";

export function actions(name: string, ...content: (Node | string)[]): HTMLElement {
  const row = document.createElement("div");
  row.className = `agent-kernel-actions ${name}`.trim();
  row.append(...content);
  return row;
}

export function button(words: string, press: (at: HTMLButtonElement) => void): HTMLButtonElement {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = words;
  made.addEventListener("click", () => press(made));
  return made;
}

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
