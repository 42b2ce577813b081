/** How much waits, in the status bar. A press leads to what waits in the notebook that is in front; where nothing does, or
 * all of it was shown, to the list of all. */
import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { INotebookTracker } from "@jupyterlab/notebook";
import { Widget } from "@lumino/widgets";
import { type GoToRun, isIn } from "./goToRun";
import { summary } from "./listedRuns";
import type { OpenRuns } from "./openRuns";

export class StatusItem extends Widget {
  private shown: string | null = null;

  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly tracker: INotebookTracker,
    private readonly runs: OpenRuns,
    private readonly goTo: GoToRun,
    private readonly showList: () => void,
  ) {
    super({ node: document.createElement("button") });
    this.id = "agent-kernel-waits";
    this.addClass("agent-kernel-waits-item");
    this.node.title = "Show what waits";
    this.node.addEventListener("click", () => void this.showNext());
    this.hide();
    runs.listed.connect(() => {
      this.node.textContent = summary(runs.waiting);
      this.setHidden(!this.any);
    });
  }

  get any(): boolean {
    return this.runs.waiting.length > 0;
  }

  async showNext(): Promise<void> {
    const front = this.tracker.find((panel) => panel === this.app.shell.currentWidget);
    const here = this.runs.waiting.filter(({ run }) => front !== undefined && isIn(front, run));
    const next = here[here.findIndex(({ run }) => run.run_id === this.shown) + 1]?.run;
    this.shown = next?.run_id ?? null;
    // The card of an agent outside is in no cell.
    if (next === undefined || next.cell_id === null) this.showList();
    else await this.goTo(next, true);
  }
}
