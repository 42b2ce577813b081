/** A new notebook that begins with an agent. */
import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { ICommandPalette } from "@jupyterlab/apputils";
import type { ILauncher } from "@jupyterlab/launcher";
import { NotebookPanel } from "@jupyterlab/notebook";
import { AGENT_PICTURE, placeCursor } from "./ask";

const COMMAND = "agent-kernel:create-notebook";
const CELLS = ["%load_ext agent_kernel", "%%agent\n"];

export function addLauncher(
  { commands, serviceManager }: JupyterFrontEnd,
  launcher: ILauncher | null,
  palette: ICommandPalette | null,
  category: string,
): void {
  commands.addCommand(COMMAND, {
    label: "Notebook with an agent",
    caption: "Create a notebook that begins with a prompt for an agent",
    execute: async ({ cwd }) => {
      const { contents, kernelspecs } = serviceManager;
      await kernelspecs.ready;
      const known = Object.values(kernelspecs.specs?.kernelspecs ?? {});
      const python = known.filter((spec) => spec?.language.toLowerCase() === "python");
      const spec = python.find((one) => one?.name === kernelspecs.specs?.default) ?? python[0];
      const { name = "python3", display_name: title = "Python 3" } = spec ?? {};
      const { path } = await contents.newUntitled({ path: typeof cwd === "string" ? cwd : "", type: "notebook" });
      const content = {
        cells: CELLS.map((source) => ({ cell_type: "code", source, metadata: {}, outputs: [], execution_count: null })),
        metadata: { kernelspec: { name, display_name: title, language: "python" } },
        nbformat: 4,
        nbformat_minor: 4, // ids of cells come with 4.5, and JupyterLab makes them
      };
      await contents.save(path, { type: "notebook", format: "json", content });
      const panel: unknown = await commands.execute("docmanager:open", { path, factory: "Notebook" });
      if (!(panel instanceof NotebookPanel)) return; // Notebook 7 opens it in a tab of the browser
      await panel.revealed;
      await placeCursor(panel.content, CELLS.length - 1);
    },
  });
  // A card among those of kernels has a picture, or a letter.
  launcher?.add({ command: COMMAND, category: "Notebook", rank: 100, kernelIconUrl: AGENT_PICTURE });
  palette?.addItem({ command: COMMAND, category });
}
