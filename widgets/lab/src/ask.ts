/** Cells that ask the agent: made by commands about other cells, or in a new notebook, and coloured as the prose that they
 * are, since in Python's colours an apostrophe makes all the rest a text in quotes. */
import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { ICommandPalette } from "@jupyterlab/apputils";
import type { Cell, CodeCell, ICellModel } from "@jupyterlab/cells";
import type { ILauncher } from "@jupyterlab/launcher";
import { type INotebookTracker, type Notebook, NotebookActions, NotebookPanel } from "@jupyterlab/notebook";
import { LabIcon } from "@jupyterlab/ui-components";
import { insertBelow } from "./answers";
import { isPython } from "./loading";
import { cellsPrompt, explainPrompt, fixPrompt, isPrompt, outputPrompt } from "./prompts";

export const FIX = "agent-kernel:fix-error";
export const EXPLAIN = "agent-kernel:explain-error";
const ASK = "agent-kernel:ask-cell";
const ASK_OUTPUT = "agent-kernel:ask-output";

const SHAPE =
  "M4 3h16a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2h-7l-5 4v-4H4a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2zm0 2v10h6v2l2.5-2H20V5zm8 1 1.2 " +
  "2.8L16 10l-2.8 1.2L12 14l-1.2-2.8L8 10l2.8-1.2z";
const drawing = (path: string): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path ${path} d="${SHAPE}"/></svg>`;
/** It takes the theme's colour. */
export const agentIcon = new LabIcon({
  name: "agent-kernel:agent",
  svgstr: drawing('class="jp-icon3" fill="#616161"'),
});
/** Where an icon has to be a picture: in the launcher, beside the kernels' own. */
export const AGENT_PICTURE = `data:image/svg+xml,${encodeURIComponent(drawing('fill="#f37726"'))}`;

interface Question {
  readonly command: string;
  /** In the palette; elsewhere it is shorter. */
  label(cells: readonly Cell[]): string;
  fits(cell: Cell): boolean;
  prompt(cells: readonly string[]): string;
  readonly runs?: true;
}

const QUESTIONS: readonly Question[] = [
  {
    command: ASK,
    label: (cells) => `Ask the Agent… About ${cells.length > 1 ? "These Cells" : "This Cell"}`,
    fits: () => true,
    prompt: cellsPrompt,
  },
  {
    command: ASK_OUTPUT,
    label: () => "Ask the Agent… About This Output",
    fits: (cell) => isCode(cell) && cell.model.outputs.length > 0,
    prompt: ([id = ""]) => outputPrompt(id),
  },
  {
    command: EXPLAIN,
    label: () => "Ask the Agent… to Explain This Error",
    fits: hasError,
    prompt: ([id = ""]) => explainPrompt(id),
  },
  {
    command: FIX,
    label: () => "Ask the Agent… to Fix This Error",
    fits: hasError,
    prompt: ([id = ""]) => fixPrompt(id),
    runs: true,
  },
];

/** They ask about the selected cells, or the one that the argument `cellId` names. `category` is the palette's. */
export function addQuestions(
  { commands }: JupyterFrontEnd,
  tracker: INotebookTracker,
  palette: ICommandPalette | null,
  category: string,
): void {
  for (const { command, label, fits, prompt, runs } of QUESTIONS) {
    const isEnabled = ({ cellId }: { readonly cellId?: unknown }): boolean => {
      const cells = cellsOf(tracker.currentWidget, cellId);
      return cells.length > 0 && cells.every(fits);
    };
    commands.addCommand(command, {
      label: ({ cellId, isShort }) =>
        isShort === true ? "Ask the Agent…" : label(cellsOf(tracker.currentWidget, cellId)),
      icon: ({ isPalette }) => (isPalette === true ? undefined : agentIcon),
      isEnabled,
      isVisible: isEnabled,
      execute: async ({ cellId }) => {
        const panel = tracker.currentWidget;
        const cells = cellsOf(panel, cellId).filter(fits);
        if (panel !== null && (await askBelow(panel, cells, prompt(cells.map(({ model }) => model.id)))) && runs)
          await NotebookActions.run(panel.content, panel.sessionContext);
      },
    });
    palette?.addItem({ command, category, args: { isPalette: true } });
  }
  // The toolbar asks again whether the command is of use.
  const changed = (): void => commands.notifyCommandChanged(ASK);
  tracker.selectionChanged.connect(changed);
  tracker.widgetAdded.connect((_, panel) => panel.content.modelContentChanged.connect(changed));
}

export function isCode(cell: Cell): cell is CodeCell {
  return cell.model.type === "code";
}

/** Whether cells that ask an agent can be made in a notebook. */
export function takesQuestions({ content }: NotebookPanel): boolean {
  return content.model !== null && !content.model.readOnly && isPython(content);
}

function hasError(cell: Cell): boolean {
  return isCode(cell) && cell.model.outputs.toJSON().some((output) => output.output_type === "error");
}

function cellsOf(panel: NotebookPanel | null, cellId: unknown): readonly Cell[] {
  if (panel === null || !takesQuestions(panel)) return [];
  if (typeof cellId === "string") return panel.content.widgets.filter(({ model }) => model.id === cellId);
  return panel.content.selectedCells;
}

/** Makes the cell, or takes the one below that asks just that, with the cursor at its end. */
async function askBelow({ content }: NotebookPanel, cells: readonly Cell[], source: string): Promise<boolean> {
  const index = content.widgets.findLastIndex((cell) => cells.includes(cell)) + 1;
  if (index === 0) return false;
  const isThere = content.widgets[index]?.model.sharedModel.getSource() === source;
  if (!isThere && !insertBelow(content, index - 1, [source])) return false;
  await placeCursor(content, index);
  return true;
}

/** Puts the cursor at the end of a cell. */
export async function placeCursor(notebook: Notebook, index: number): Promise<void> {
  notebook.activeCellIndex = index;
  notebook.deselectAll();
  await notebook.scrollToItem(index, "auto", 0).catch(() => undefined);
  const cell = notebook.widgets[index];
  await cell?.ready;
  notebook.mode = "edit";
  const editor = cell?.editor;
  const line = (editor?.lineCount ?? 1) - 1;
  editor?.setCursorPosition({ line, column: editor.getLine(line)?.length ?? 0 });
}

const CREATE = "agent-kernel:create-notebook";
const CELLS = ["%load_ext agent_kernel", "%%agent\n"];

export function addLauncher(
  { commands, serviceManager }: JupyterFrontEnd,
  launcher: ILauncher | null,
  palette: ICommandPalette | null,
  category: string,
): void {
  commands.addCommand(CREATE, {
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
  launcher?.add({ command: CREATE, category: "Notebook", rank: 100, kernelIconUrl: AGENT_PICTURE });
  palette?.addItem({ command: CREATE, category });
}

/** As Markdown cells have it. */
const PROSE = "text/x-ipythongfm";

/** Watches all notebooks in the page. */
export function coloursPrompts(tracker: INotebookTracker): void {
  tracker.widgetAdded.connect((_, { content }) => {
    colourCells(content);
    content.modelChanged.connect(() => colourCells(content));
  });
}

function colourCells(notebook: Notebook): void {
  const cells = notebook.model?.cells;
  if (cells === undefined) return;
  for (const cell of cells) colour_(notebook, cell);
  cells.changed.connect((_, { type, newValues }) => {
    if (type !== "remove") newValues.forEach((cell) => colour_(notebook, cell));
  });
}

function colour_(notebook: Notebook, cell: ICellModel): void {
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
