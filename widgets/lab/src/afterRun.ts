/** Below a cell that failed on a name, which a run above it may make: what that run waits for, and a press that runs the
 * cell and those below it when the run has ended, and goes on so where these need later runs. */
import type { Cell, CodeCell } from "@jupyterlab/cells";
import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import { SUPPRESS_SHORTCUTS } from "../../src/ui/notebook";
import { isCode } from "./ask";
import { actions, button } from "./elements";
import type { OpenRuns } from "./openRuns";
import { type ListedRun, wordsOfEnded, wordsOfOpen } from "./listedRuns";

/** A name, or a column. */
const NAMES = new Set(["NameError", "KeyError"]);
/** Among so many that have ended last, the one that was waited for is looked for. */
const ENDED_RUNS = 20;

type RunRest = (panel: NotebookPanel, cell: CodeCell) => Promise<void>;

/** Watches what is run in all notebooks in the page. */
export function offersTheRest(tracker: INotebookTracker, runs: OpenRuns): void {
  /** By cell; where no run above it is known yet, whether a press has it wait for one. */
  const failed = new Map<CodeCell, Rest | boolean>();
  /** What a press runs now: where one of them needs a later run, that is waited for by the same press. */
  const pressed = new Set<Cell>();
  const runRest: RunRest = async ({ content, sessionContext }, cell) => {
    const index = content.widgets.indexOf(cell);
    if (index < 0) return;
    const rest = content.widgets.slice(index);
    for (const below of rest.slice(1)) pressed.add(below);
    try {
      await NotebookActions.runCells(content, rest, sessionContext);
    } finally {
      for (const below of rest) pressed.delete(below);
    }
  };
  NotebookActions.executionScheduled.connect((_, { cell }) => {
    failed.delete(cell as CodeCell); // the note goes with the output
  });
  NotebookActions.executed.connect((_, { cell, success }) => {
    if (success || !isCode(cell) || !lacksName(cell)) return;
    failed.set(cell, pressed.has(cell));
    runs.expect();
  });
  runs.listed.connect((_, open) => {
    for (const [cell, known] of failed) {
      const panel = tracker.find(({ content }) => content.widgets.includes(cell));
      const rest = typeof known === "object" || !panel ? known : restOf(panel, cell, open, known, runRest);
      failed.set(cell, rest);
      if (panel === undefined || (typeof rest === "object" && rest.hasEnded)) failed.delete(cell);
      if (typeof rest === "object") void rest.update(open, runs).catch(() => undefined);
    }
  });
}

function lacksName(cell: CodeCell): boolean {
  return cell.model.outputs.toJSON().some((output) => NAMES.has(String(output["ename"])));
}

/** `isWanted` as it was given where no run of a cell above is open. */
function restOf(
  panel: NotebookPanel,
  cell: CodeCell,
  open: readonly ListedRun[],
  isWanted: boolean,
  runRest: RunRest,
): Rest | boolean {
  const { widgets } = panel.content;
  const failedAs = cell.model.executionCount ?? Infinity;
  const above = widgets
    .slice(0, widgets.indexOf(cell))
    .filter(isCode)
    .filter(({ model }) => (model.executionCount ?? 0) < failedAs); // not one that was run after the failure
  const prompt = above.findLast(({ model }) => open.some((run) => run.cell_id === model.id));
  const run = open.find((one) => one.cell_id === prompt?.model.id);
  const output = cell.outputArea.widgets.at(-1)?.node.querySelector(".jp-OutputArea-output");
  if (prompt === undefined || run === undefined || !output) return isWanted;
  const rest = new Rest(() => runRest(panel, cell), run.run_id, prompt.model.executionCount, isWanted);
  output.append(rest.note);
  return rest;
}

/** A cell that failed, those below it, and the run that they are for. */
class Rest {
  readonly note: HTMLElement;
  hasEnded = false;
  private readonly words = document.createElement("span");
  private readonly button = button("Run from here when it ends", () => {
    if (this.hasEnded) void this.run();
    else this.button.setAttribute("aria-pressed", String((this.isWanted = !this.isWanted)));
  });

  constructor(
    private readonly run: () => Promise<void>,
    private readonly runId: string,
    private readonly number: number | null,
    private isWanted: boolean,
  ) {
    this.words.setAttribute("role", "status");
    this.button.setAttribute("aria-pressed", String(isWanted));
    this.button.setAttribute(SUPPRESS_SHORTCUTS, "true");
    this.note = actions("agent-kernel-missing", this.words, this.button);
  }

  async update(open: readonly ListedRun[], runs: OpenRuns): Promise<void> {
    const run = open.find((one) => one.run_id === this.runId);
    if (run !== undefined) {
      this.words.textContent = wordsOfOpen(run, this.number);
      return;
    }
    this.hasEnded = true;
    const ended = (await runs.list(ENDED_RUNS)).find((one) => one.run_id === this.runId);
    this.words.textContent = wordsOfEnded(ended?.status, this.number);
    this.button.textContent = "Run from here";
    this.button.removeAttribute("aria-pressed");
    if (this.isWanted && ended?.status === "complete") await this.run();
  }
}
