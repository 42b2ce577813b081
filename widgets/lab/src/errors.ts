/** Fix and Explain below the errors of cells. They stand in the page, not in the notebook. */
import type { CodeCell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { SUPPRESS_SHORTCUTS } from "../../src/ui/notebook";
import { isCode, takesQuestions } from "./ask";
import { watchDrawn, actions, button } from "./elements";
import { asksAgent } from "./prompts";

const BUTTONS = "agent-kernel-error";

/** `press` asks about the cell of that id. */
export type Press = (question: "fix" | "explain", cellId: string) => void;

/** Watches the errors of a notebook, those that are there already included. */
export function watchErrors(panel: NotebookPanel, press: Press): void {
  watchDrawn(panel, (drawn) => {
    for (const cell of panel.content.widgets) if (drawn.has(cell.node) && isCode(cell)) mark(panel, cell, press);
  });
  const all = (): void => {
    for (const cell of panel.content.widgets) if (isCode(cell)) mark(panel, cell, press);
  };
  // Which language the kernel has is known later, and changes with the kernel.
  void panel.context.ready.then(() => {
    if (panel.isDisposed) return;
    all();
    panel.content.model?.metadataChanged.connect(all);
  });
}

function mark(panel: NotebookPanel, cell: CodeCell, press: Press): void {
  const { outputArea, model } = cell;
  const isAsked = takesQuestions(panel) && !asksAgent(model.sharedModel.getSource());
  outputArea.widgets.forEach(({ node }, index) => {
    const isMarked = isAsked && index < model.outputs.length && model.outputs.get(index).type === "error";
    const old = node.querySelector(`.${BUTTONS}`);
    if (!isMarked) old?.remove();
    else if (old === null) node.querySelector(".jp-OutputArea-output")?.append(buttons(cell, press));
  });
}

function buttons(cell: CodeCell, press: Press): HTMLElement {
  const made = (["fix", "explain"] as const).map((question) =>
    button(question === "fix" ? "Fix" : "Explain", () => press(question, cell.model.id)),
  );
  // Enter is the button's, and no command of the notebook's.
  for (const one of made) one.setAttribute(SUPPRESS_SHORTCUTS, "true");
  return actions(BUTTONS, ...made);
}
