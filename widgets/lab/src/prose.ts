/** Colours cells that ask the agent as the prose that they are: in Python's colours an apostrophe makes all the rest a
 * text in quotes. */
import type { ICellModel } from "@jupyterlab/cells";
import type { INotebookTracker, Notebook } from "@jupyterlab/notebook";
import { isPython } from "./loading";
import { isPrompt } from "./prompts";

/** As Markdown cells have it. */
const PROSE = "text/x-ipythongfm";

/** Watches all notebooks in the page. */
export function coloursPrompts(tracker: INotebookTracker): void {
  tracker.widgetAdded.connect((_, { content }) => {
    watchCells(content);
    content.modelChanged.connect(() => watchCells(content));
  });
}

function watchCells(notebook: Notebook): void {
  const cells = notebook.model?.cells;
  if (cells === undefined) return;
  for (const cell of cells) watch(notebook, cell);
  cells.changed.connect((_, { type, newValues }) => {
    if (type !== "remove") newValues.forEach((cell) => watch(notebook, cell));
  });
}

function watch(notebook: Notebook, cell: ICellModel): void {
  if (cell.type !== "code") return;
  const colour = (): void => {
    if (isPython(notebook) && isPrompt(cell.sharedModel.getSource())) cell.mimeType = PROSE;
    else if (cell.mimeType === PROSE) cell.mimeType = notebook.codeMimetype;
  };
  cell.sharedModel.changed.connect((_, { sourceChange }) => {
    if (sourceChange !== undefined) colour();
  });
  // The notebook sets it when it learns its kernel's language, and in each new cell.
  cell.mimeTypeChanged.connect(colour);
  colour();
}
