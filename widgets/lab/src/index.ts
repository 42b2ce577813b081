/** The JupyterLab extension: what a cell's output cannot do by itself. It works in JupyterLab and in Notebook 7. */
import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { INotebookTracker } from "@jupyterlab/notebook";
import { keepsKeysInRecords, RECORD } from "../../src/notebook";
import { answerInsertions, insertBelow } from "./insert";
import { codeOf, decorateRecords } from "./records";
import style from "./style.css";

const CATEGORY = "Agent Kernel";

const keys: JupyterFrontEndPlugin<void> = {
  id: "agent-kernel:keys",
  description: "Keeps keys that are pressed in a run's record from the notebook.",
  autoStart: true,
  activate: keepsKeysInRecords,
};

const cells: JupyterFrontEndPlugin<void> = {
  id: "agent-kernel:cells",
  description: "Copies the code of a run, and makes cells of it.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette],
  activate: ({ commands }, tracker: INotebookTracker, palette: ICommandPalette | null) => {
    addStyle();
    answerInsertions(tracker);
    tracker.widgetAdded.connect((_, panel) => decorateRecords(panel.content.node));
    const command = "agent-kernel:insert-run";
    const recorded = (): string[] => {
      const record = tracker.activeCell?.node.querySelector(RECORD);
      return record ? codeOf(record) : [];
    };
    commands.addCommand(command, {
      label: "Insert the Code of This Cell’s Run as Cells",
      isEnabled: () => recorded().length > 0,
      execute: () => {
        const notebook = tracker.currentWidget?.content;
        if (notebook) insertBelow(notebook, notebook.activeCellIndex, recorded());
      },
    });
    palette?.addItem({ command, category: CATEGORY });
  },
};

function addStyle(): void {
  const sheet = document.createElement("style");
  sheet.textContent = style;
  document.head.append(sheet);
}

export default [keys, cells];
