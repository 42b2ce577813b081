/** The JupyterLab extension: what a cell's output cannot do by itself. It works in JupyterLab and in Notebook 7. */
import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { keepsKeysInRecords } from "../../src/notebook";

const keys: JupyterFrontEndPlugin<void> = {
  id: "agent-kernel:keys",
  description: "Keeps keys that are pressed in a run's record from the notebook.",
  autoStart: true,
  activate: keepsKeysInRecords,
};

export default [keys];
