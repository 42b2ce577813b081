/** Shows what waits where its card can't be seen: in place of hidden outputs, in a cell that another page has run, on the
 * notebook's tab, in the status bar, and by notifications for those who want them. */
import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { INotebookTracker, Notebook, NotebookPanel } from "@jupyterlab/notebook";
import { Widget } from "@lumino/widgets";
import { isCode } from "./ask";
import { isOfRun, indexOf, isIn } from "./documents";
import { watchDrawn, button } from "./elements";
import { type GoToRun, headingOf } from "./goToRun";
import { type ListedRun, type Waiting, countOf, summary } from "./listedRuns";
import type { OpenRuns } from "./openRuns";
import { Notification } from "@jupyterlab/apputils";
import type { Settings } from "./settings";

const MARK = "agent-kernel-waits";
/** On tabs: `data-agent-kernel-waits`. */
export const COUNT = "agent-kernel-waits";
const COVER = ".jp-Placeholder-contentContainer";

export function marksWhatWaits(tracker: INotebookTracker, runs: OpenRuns, goTo: GoToRun): void {
  tracker.widgetAdded.connect((_, panel) =>
    watchDrawn(panel, () => {
      if (runs.waiting.length > 0) mark(panel, runs.waiting, goTo);
    }),
  );
  runs.listed.connect(() => tracker.forEach((panel) => mark(panel, runs.waiting, goTo)));
}

function mark(panel: NotebookPanel, waiting: readonly Waiting[], goTo: GoToRun): void {
  const here = waiting.filter(({ run }) => isIn(panel, run));
  markTab(panel, countOf(here));
  const marks = new Map<Element, Waiting>();
  for (const one of here) {
    const cover = coverOf(panel.content, indexOf(panel, one.run), one.run.run_id);
    if (cover !== null) marks.set(cover, one);
  }
  for (const old of panel.content.node.querySelectorAll<HTMLElement>(`button.${MARK}`)) {
    const one = old.parentElement === null ? undefined : marks.get(old.parentElement);
    if (one === undefined || old.dataset["run"] !== one.run.run_id) old.remove();
    else if (old.textContent !== one.words) old.textContent = one.words;
  }
  for (const [cover, { run, words }] of marks)
    if (cover.querySelector(`button.${MARK}`) === null) cover.append(markOf(run, words, goTo));
}

function markTab({ title }: NotebookPanel, count: number): void {
  const classes = title.className.split(" ").filter((name) => name !== MARK && name !== "");
  title.className = [...classes, ...(count > 0 ? [MARK] : [])].join(" ");
  // A new one has JupyterLab draw the tab again.
  if (title.dataset[COUNT] !== String(count)) title.dataset = { ...title.dataset, [COUNT]: String(count) };
}

function markOf(run: ListedRun, words: string, goTo: GoToRun): HTMLButtonElement {
  const made = button(words, () => void goTo(run, true));
  made.className = MARK;
  made.dataset["run"] = run.run_id;
  // Of the placeholder around it, a click shows the output.
  made.addEventListener("click", (event) => event.stopPropagation());
  return made;
}

/** The element in place of a cell's hidden output, or the cell whose outputs do not show the run; `null` where they do. */
function coverOf(notebook: Notebook, index: number, runId: string): Element | null {
  const cell = notebook.widgets[index];
  if (cell === undefined) return null;
  if (cell.isHidden) return headingOf(notebook, index)?.node ?? null;
  if (!isCode(cell)) return null;
  if (!cell.outputHidden) return cell.model.outputs.toJSON().some((one) => isOfRun(one, runId)) ? null : cell.node;
  return cell.node.querySelector(`${cell.inputHidden ? ".jp-InputPlaceholder" : ".jp-OutputPlaceholder"} ${COVER}`);
}

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

export function notifiesOfWaits(
  { shell }: JupyterFrontEnd,
  tracker: INotebookTracker,
  settings: Settings,
  runs: OpenRuns,
  goTo: GoToRun,
): void {
  let known: ReadonlySet<string> = new Set();
  const isInSight = ({ run }: Waiting): boolean =>
    !document.hidden && tracker.find((panel) => panel === shell.currentWidget && isIn(panel, run)) !== undefined;
  runs.listed.connect(() => {
    const news = runs.waiting.filter((one) => !known.has(one.run.run_id) && !isInSight(one));
    known = new Set(runs.waiting.map(({ run }) => run.run_id));
    for (const one of news) {
      const show = (): void => void goTo(one.run, true);
      if (settings.notifies)
        Notification.info(words(one), { autoClose: false, actions: [{ label: "Show", callback: show }] });
      if (settings.notifiesOnDesktop) notifyDesktop(one, show);
    }
  });
  settings.changed.connect(() => {
    // The press that has changed the setting allows the page to ask.
    if (settings.notifiesOnDesktop && desktop()?.permission === "default") void desktop()?.requestPermission();
  });
}

function words({ words, run }: Waiting): string {
  return run.notebook === null ? words : `${words}, in ${run.notebook}`;
}

/** Pages over plain HTTP have none. */
function desktop(): typeof window.Notification | null {
  return "Notification" in window ? window.Notification : null;
}

function notifyDesktop(one: Waiting, show: () => void): void {
  const Desktop = desktop();
  if (Desktop?.permission !== "granted") return;
  // One for each run, in however many pages.
  const shown = new Desktop("Agent Kernel", { body: words(one), tag: one.run.run_id });
  shown.onclick = () => {
    window.focus();
    show();
    shown.close();
  };
}
