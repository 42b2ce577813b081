/** Below a cell that failed on a name, which a run above it may make: what that run waits for, and a press that runs the
 * cell and those below it when the run has ended. */
import type { CodeCell } from "@jupyterlab/cells";
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

/** Watches what is run in all notebooks in the page. */
export function offersTheRest(tracker: INotebookTracker, runs: OpenRuns): void {
  /** By cell; `null` where no run above it is known yet. */
  const failed = new Map<CodeCell, Rest | null>();
  NotebookActions.executionScheduled.connect((_, { cell }) => {
    failed.delete(cell as CodeCell); // the note goes with the output
  });
  NotebookActions.executed.connect((_, { cell, success }) => {
    if (success || !isCode(cell) || !lacksName(cell)) return;
    failed.set(cell, null);
    runs.expect();
  });
  runs.listed.connect((_, open) => {
    for (const [cell, known] of failed) {
      const panel = tracker.find(({ content }) => content.widgets.includes(cell));
      const rest = known ?? (panel === undefined ? null : restOf(panel, cell, open));
      failed.set(cell, rest);
      if (panel === undefined || rest?.hasEnded === true) failed.delete(cell);
      void rest?.update(open, runs).catch(() => undefined);
    }
  });
}

function lacksName(cell: CodeCell): boolean {
  return cell.model.outputs.toJSON().some((output) => NAMES.has(String(output["ename"])));
}

/** `null` where no run of a cell above is open. */
function restOf(panel: NotebookPanel, cell: CodeCell, open: readonly ListedRun[]): Rest | null {
  const { widgets } = panel.content;
  const above = widgets.slice(0, widgets.indexOf(cell)).filter(isCode);
  const prompt = above.findLast(({ model }) => open.some((run) => run.cell_id === model.id));
  const run = open.find((one) => one.cell_id === prompt?.model.id);
  const output = cell.outputArea.widgets.at(-1)?.node.querySelector(".jp-OutputArea-output");
  if (prompt === undefined || run === undefined || !output) return null;
  const rest = new Rest(panel, cell, run.run_id, prompt.model.executionCount);
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
  private isWanted = false;

  constructor(
    private readonly panel: NotebookPanel,
    private readonly cell: CodeCell,
    private readonly runId: string,
    private readonly number: number | null,
  ) {
    this.words.setAttribute("role", "status");
    this.button.setAttribute("aria-pressed", "false");
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

  private async run(): Promise<void> {
    const { content, sessionContext } = this.panel;
    const index = content.widgets.indexOf(this.cell);
    if (index >= 0) await NotebookActions.runCells(content, content.widgets.slice(index), sessionContext);
  }
}
