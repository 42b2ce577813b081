/** Loads the agent before a cell that asks it, and says what to do below one whose kernel can't. */
import { CodeCell } from "@jupyterlab/cells";
import { type INotebookTracker, type Notebook, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel, KernelMessage } from "@jupyterlab/services";
import { copyButton } from "../../src/ui/copying";
import { actions, button } from "./elements";
import { ASK_ENVIRONMENT, type Lacking, loadCode, readLacking, wordsOf } from "./environment";
import { asksAgent } from "./prompts";
import type { Settings } from "./settings";

/** As IPython says it, on a line of its own. */
const NO_MAGIC = /^UsageError: (?:Cell|Line) magic (?:function )?`%%?agent`/m;
/** Of `%load_ext agent_kernel`. */
const NO_PACKAGE = /^No module named 'agent_kernel'/;

const SILENT = { silent: true, store_history: false, stop_on_error: false };

/** Watches what is run in all notebooks in the page. */
export function loadsWhereAsked(tracker: INotebookTracker, settings: Settings): void {
  // The request to run the cell is sent straight after, so that the kernel carries it out with the agent loaded.
  NotebookActions.executionScheduled.connect((_, { notebook, cell }) => {
    const kernel = kernelOf(panelOf(tracker, notebook));
    const source = cell.model.sharedModel.getSource();
    if (kernel === null || !isPython(notebook) || !asksAgent(source)) return;
    const code = loadCode(settings.defaults, cell.model.id, source);
    void kernel.requestExecute({ code, ...SILENT }).done.catch(() => undefined);
  });
  NotebookActions.executed.connect((_, { notebook, cell, success }) => {
    const panel = panelOf(tracker, notebook);
    if (!success && panel !== undefined && cell instanceof CodeCell && lacksAgent(cell)) void showHelp(panel, cell);
  });
}

/** Whether a notebook's kernel has Python, as far as the notebook says. */
export function isPython({ model }: Notebook): boolean {
  return model?.defaultKernelLanguage.toLowerCase() === "python";
}

function panelOf(tracker: INotebookTracker, notebook: Notebook): NotebookPanel | undefined {
  return tracker.find(({ content }) => content === notebook);
}

function kernelOf(panel: NotebookPanel | undefined): Kernel.IKernelConnection | null {
  return panel?.sessionContext.session?.kernel ?? null;
}

/** `null` where the kernel has loaded the agent by now. Rejects where the kernel ends. */
async function askEnvironment(kernel: Kernel.IKernelConnection): Promise<Lacking | null> {
  const future = kernel.requestExecute({ code: ASK_ENVIRONMENT, ...SILENT });
  let printed = "";
  future.onIOPub = (message) => {
    if (message.header.msg_type === "stream") printed += (message as KernelMessage.IStreamMsg).content.text;
  };
  await future.done;
  return readLacking(printed);
}

function lacksAgent({ outputArea }: CodeCell): boolean {
  return outputArea.model.toJSON().some((output) => {
    const text: unknown = output["text"];
    return (
      NO_MAGIC.test(Array.isArray(text) ? text.join("") : String(text ?? "")) ||
      NO_PACKAGE.test(String(output["evalue"] ?? ""))
    );
  });
}

/** It goes with the output below which it stands, and is never saved. */
async function showHelp(panel: NotebookPanel, cell: CodeCell): Promise<void> {
  const kernel = kernelOf(panel);
  if (kernel === null || !isPython(panel.content)) return;
  const lacking = await askEnvironment(kernel);
  const output = [...cell.outputArea.node.querySelectorAll(".jp-OutputArea-output")].at(-1);
  if (output === undefined) return;
  const help = actions(
    "agent-kernel-missing",
    lacking === null ? "This kernel had not loaded the agent." : wordsOf(lacking),
  );
  if (lacking?.missing === true) {
    const command = document.createElement("code");
    command.textContent = lacking.command;
    help.append(
      command,
      copyButton(() => lacking.command),
    );
  }
  const again = lacking?.missing === true ? "Run again, once it is installed" : "Load it and run again";
  help.append(button(again, () => void runAgain(panel, cell)));
  output.append(help);
}

/** As the user would, so that the agent is loaded first. */
async function runAgain({ content, sessionContext }: NotebookPanel, cell: CodeCell): Promise<void> {
  const index = content.widgets.indexOf(cell);
  if (index < 0) return;
  content.activeCellIndex = index;
  content.deselectAll();
  await NotebookActions.run(content, sessionContext);
}
