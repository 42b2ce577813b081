/** Shows the text of widgets that runs have shown, once they are no longer in the kernel. */
import type { CodeCell } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import { GONE } from "../../src/card/notebookRenderers";
import { isCode } from "./ask";

/** What an output of a run has in its metadata: `RESULT_MARK` in Python. */
const RESULT_MARK = "agent_kernel";
/** ipywidgets leaves it with a text of its own ("model not found") and nothing else. */
const NOT_SHOWN = ".jp-OutputArea-output.jupyter-widgets";

type Output = ReturnType<CodeCell["outputArea"]["model"]["get"]>;

/** Watches all notebooks in the page. */
export function tellsOfGoneWidgets(tracker: INotebookTracker): void {
  tracker.widgetAdded.connect((_, panel) => {
    const changes = new MutationObserver((records) => {
      for (const { target } of records) {
        const gone = target instanceof HTMLElement && target.matches(NOT_SHOWN) && target.firstElementChild === null;
        const output = gone ? outputOf(panel, target) : undefined;
        if (gone && output !== undefined && RESULT_MARK in output.metadata) void showText(panel, target, output);
      }
    });
    changes.observe(panel.content.node, { childList: true, subtree: true });
    panel.disposed.connect(() => changes.disconnect());
  });
}

function outputOf({ content }: NotebookPanel, node: HTMLElement): Output | undefined {
  const cell = content.widgets.find((one) => one.node.contains(node));
  if (cell === undefined || !isCode(cell)) return undefined;
  const { widgets, model } = cell.outputArea;
  return model.get(widgets.findIndex((one) => one.node.contains(node)));
}

async function showText({ content }: NotebookPanel, node: HTMLElement, output: Output): Promise<void> {
  const text = content.rendermime.createRenderer("text/plain");
  await text.renderModel(output);
  const note = document.createElement("p");
  note.textContent = GONE;
  node.replaceChildren(text.node, note);
}
