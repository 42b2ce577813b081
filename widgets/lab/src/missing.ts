/** Says what to do below a cell that asks an agent in a kernel that has not loaded it. */
import { CodeCell } from "@jupyterlab/cells";
import type { INotebookTracker } from "@jupyterlab/notebook";
import { NotebookActions } from "@jupyterlab/notebook";

const LOAD = "%load_ext agent_kernel";
/** As IPython says it, on a line of its own. */
const MISSING = /^UsageError: (?:Cell|Line) magic (?:function )?`%%?agent`/m;

/** Watches what is run in all notebooks in the page. */
export function helpsWhereMissing(tracker: INotebookTracker): void {
  NotebookActions.executed.connect((_, { cell, success }) => {
    if (!success && cell instanceof CodeCell && isMissing(cell)) showHelp(tracker, cell);
  });
}

function isMissing({ outputArea }: CodeCell): boolean {
  return outputArea.model.toJSON().some((output) => {
    const text: unknown = output["text"];
    return MISSING.test(Array.isArray(text) ? text.join("") : String(text ?? ""));
  });
}

/** It goes with the output below which it stands, and is never saved. */
function showHelp(tracker: INotebookTracker, cell: CodeCell): void {
  const output = [...cell.outputArea.node.querySelectorAll(".jp-OutputArea-output")].at(-1);
  if (output === undefined) return;
  const help = document.createElement("div");
  help.className = "agent-kernel-actions agent-kernel-missing";
  help.append(
    `This kernel has not loaded the agent: run ${LOAD} first. To have it in every kernel: agent-kernel setup.`,
  );
  const load = document.createElement("button");
  load.type = "button";
  load.textContent = "Load it and run again";
  load.addEventListener("click", () => void loadAndRun(tracker, cell, help));
  help.append(load);
  output.append(help);
}

async function loadAndRun(tracker: INotebookTracker, cell: CodeCell, help: HTMLElement): Promise<void> {
  const context = tracker.find(({ content }) => content.widgets.includes(cell))?.sessionContext;
  const kernel = context?.session?.kernel;
  if (!context || !kernel) return;
  const reply = await kernel.requestExecute({ code: LOAD, store_history: false, stop_on_error: false }).done;
  if (reply.content.status === "ok") await CodeCell.execute(cell, context);
  else help.replaceChildren("This kernel's Python has no agent_kernel. Install it there: %pip install agent-kernel");
}
