/** Shows what waits where its card can't be seen: in place of hidden outputs, on the notebook's tab, and for the whole
 * page in the status bar, each with a way to the card. The server knows what waits, also where no card is in the page. */
import type { JupyterFrontEnd } from "@jupyterlab/application";
import { Dialog, Notification, showDialog } from "@jupyterlab/apputils";
import type { Cell, CodeCell, MarkdownCell } from "@jupyterlab/cells";
import { type INotebookTracker, type Notebook, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import { Poll } from "@lumino/polling";
import { type ISignal, Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";
import { insertBelow } from "./insert";
import { listRuns } from "./listRuns";
import type { Settings } from "./settings";
import { type ListedRun, summary, type Waiting, waitingRuns } from "./listedRuns";

/** The kernel's own messages to the server pass through the page, too: a run begins, or goes on. */
const FROM_KERNEL = "agent_kernel_event";
const ASK_EVERY_MS = 2_000;
const ASK_AT_MOST_EVERY_MS = 60_000;
/** So long after a kernel spoke of a run the server is asked, though it knows of none yet. */
const EXPECT_MS = 10_000;
const FIND_MS = 5_000;
const LOST =
  "Its cell has no output, or is not there: the notebook was loaded again before it was saved, or the output was " +
  "cleared. The run goes on, and a cell below can show the card.";
const MARK = "agent-kernel-waits";
const COVER = ".jp-Placeholder-contentContainer";

export class WaitingRuns {
  readonly item = new Widget({ node: document.createElement("button") });
  private readonly listedSignal = new Signal<this, readonly ListedRun[]>(this);
  private waiting: readonly Waiting[] = [];
  private expectUntil = 0;
  private shown: string | null = null;
  private readonly poll = new Poll({
    auto: false,
    name: "agent-kernel:waiting",
    factory: () => this.ask(),
    frequency: { interval: ASK_EVERY_MS, backoff: true, max: ASK_AT_MOST_EVERY_MS },
    standby: "when-hidden",
  });

  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly tracker: INotebookTracker,
    private readonly settings: Settings,
  ) {
    this.item.addClass(`${MARK}-item`);
    this.item.node.title = "Show what waits";
    this.item.node.addEventListener("click", () => void this.showNext());
    this.item.hide();
    tracker.widgetAdded.connect((_, panel) => this.watch(panel));
  }

  get any(): boolean {
    return this.waiting.length > 0;
  }

  /** Tells of all runs that are open, as often as the server is asked. */
  get listed(): ISignal<this, readonly ListedRun[]> {
    return this.listedSignal;
  }

  /** Reads the runs that are open, and so many that have ended. */
  async list(limit: number): Promise<readonly ListedRun[]> {
    const query = { ...(limit === 0 && { state: "open" }), limit: String(limit) };
    return listRuns(this.app.serviceManager.serverSettings, query);
  }

  /** Leads to what waits; pressed again, to what else does. */
  async showNext(): Promise<void> {
    const last = this.waiting.findIndex((one) => one.runId === this.shown);
    const next = this.waiting[(last + 1) % this.waiting.length];
    if (next !== undefined) await this.show(next);
  }

  private watch(panel: NotebookPanel): void {
    panel.sessionContext.iopubMessage.connect((_, message) => {
      if ((message.header.msg_type as string) === FROM_KERNEL) this.expect();
    });
    // Outputs are folded and unfolded without a word.
    let due = false;
    const changes = new MutationObserver(() => {
      if (due || !this.any) return;
      due = true;
      void frame().then(() => {
        due = false;
        if (!panel.isDisposed) this.mark(panel);
      });
    });
    changes.observe(panel.content.node, { childList: true, subtree: true });
    panel.disposed.connect(() => changes.disconnect());
    this.expect();
  }

  /** Asks for a while, as a run may have begun. */
  expect(): void {
    const asking = Date.now() < this.expectUntil || this.any;
    this.expectUntil = Date.now() + EXPECT_MS;
    if (!asking) void this.poll.refresh();
  }

  private async ask(): Promise<void> {
    const open = await this.list(0);
    const known = new Set(this.waiting.map(({ runId }) => runId));
    this.waiting = waitingRuns(open);
    for (const one of this.waiting) if (!known.has(one.runId)) this.notify(one);
    this.item.node.textContent = summary(this.waiting);
    this.item.setHidden(!this.any);
    this.panels().forEach((panel) => this.mark(panel));
    this.listedSignal.emit(open);
    if (open.length === 0 && Date.now() > this.expectUntil) void this.poll.stop();
  }

  /** For those who want it, where the notebook is not in view. */
  private notify(one: Waiting): void {
    const panel = this.app.shell.currentWidget;
    const isInView = !document.hidden && this.tracker.find((each) => each === panel && indexOf(each.content, one) >= 0);
    if (!this.settings.notifies || isInView) return;
    const words = one.notebook === null ? one.words : `${one.words}, in ${one.notebook}`;
    Notification.info(words, { autoClose: false, actions: [{ label: "Show", callback: () => void this.show(one) }] });
  }

  private panels(): NotebookPanel[] {
    const panels: NotebookPanel[] = [];
    this.tracker.forEach((panel) => panels.push(panel));
    return panels;
  }

  private mark(panel: NotebookPanel): void {
    const here = this.waiting.filter((one) => indexOf(panel.content, one) >= 0);
    panel.title.className = here.length > 0 ? withMark(panel.title.className) : withoutMark(panel.title.className);
    const marks = new Map<Element, Waiting>();
    for (const one of here) {
      const cover = coverOf(panel.content, indexOf(panel.content, one));
      if (cover !== null) marks.set(cover, one);
    }
    for (const old of panel.content.node.querySelectorAll(`button.${MARK}`)) {
      const one = old.parentElement === null ? undefined : marks.get(old.parentElement);
      if (one === undefined) old.remove();
      else if (old.textContent !== one.words) old.textContent = one.words;
    }
    for (const [cover, one] of marks)
      if (cover.querySelector(`button.${MARK}`) === null) cover.append(this.button(one.runId, one.words));
  }

  private button(runId: string, words: string): HTMLButtonElement {
    const made = document.createElement("button");
    made.type = "button";
    made.className = MARK;
    made.textContent = words;
    made.addEventListener("click", (event) => {
      event.stopPropagation();
      const one = this.waiting.find((waiting) => waiting.runId === runId);
      if (one !== undefined) void this.show(one);
    });
    return made;
  }

  private async show(one: Waiting): Promise<void> {
    this.shown = one.runId;
    const panel = this.tracker.find(({ content }) => indexOf(content, one) >= 0) ?? (await this.open(one));
    if (panel === null) return;
    if (this.app.shell.currentWidget !== panel) this.app.shell.activateById(panel.id);
    const index = indexOf(panel.content, one);
    const isLost = index < 0 ? await isOf(panel, one) : !(await reveal(panel.content, index));
    if (isLost) await this.offer(panel, one);
  }

  /** Tells that a notebook has lost the card of its run, and offers to show it below the cell, or the active one. */
  private async offer(panel: NotebookPanel, one: Waiting): Promise<void> {
    const buttons = [Dialog.cancelButton(), Dialog.okButton({ label: "Show It Below" })];
    const { button } = await showDialog({ title: "The Card Is Not in This Notebook", body: LOST, buttons });
    if (!button.accept || panel.isDisposed) return;
    const index = indexOf(panel.content, one);
    if (insertBelow(panel.content, index < 0 ? panel.content.activeCellIndex : index, ["%agent show"]))
      await NotebookActions.run(panel.content, panel.sessionContext);
  }

  private async open({ notebook }: Waiting): Promise<NotebookPanel | null> {
    if (notebook === null) return null;
    const panel: unknown = await this.app.commands.execute("docmanager:open", { path: notebook });
    const found = this.tracker.find((one) => one === panel) ?? null; // Notebook 7 opens it in a tab of the browser
    await found?.revealed;
    return found;
  }
}

function indexOf(notebook: Notebook, { cellId }: Waiting): number {
  return cellId === null ? -1 : notebook.widgets.findIndex((cell) => cell.model.id === cellId);
}

/** Whether the run is from a cell of the kernel that a notebook has now. */
async function isOf({ sessionContext }: NotebookPanel, { cellId, kernelId }: Waiting): Promise<boolean> {
  await sessionContext.ready;
  return cellId !== null && kernelId !== null && sessionContext.session?.kernel?.id === kernelId;
}

/** The element in place of a cell's hidden output; `null` where it is not hidden. */
function coverOf(notebook: Notebook, index: number): Element | null {
  const cell = notebook.widgets[index];
  if (cell === undefined) return null;
  if (cell.isHidden) return headingOf(notebook, index)?.node ?? null;
  if (!isCode(cell) || !cell.outputHidden) return null;
  return cell.node.querySelector(`${cell.inputHidden ? ".jp-InputPlaceholder" : ".jp-OutputPlaceholder"} ${COVER}`);
}

/** The folded heading that a cell is under. */
function headingOf(notebook: Notebook, index: number): Cell | undefined {
  const isFolded = (cell: Cell): boolean => cell.model.type === "markdown" && (cell as MarkdownCell).headingCollapsed;
  return notebook.widgets.slice(0, index).findLast((cell) => isFolded(cell) && !cell.isHidden);
}

/** Unfolds what hides a cell's output, and gives the focus to the card that waits in it. False where the cell has no
 * output at all. */
async function reveal(notebook: Notebook, index: number): Promise<boolean> {
  const cell = notebook.widgets[index];
  if (cell === undefined) return true;
  if (cell.isHidden) NotebookActions.expandParent(cell, notebook);
  notebook.deselectAll();
  notebook.mode = "command";
  await notebook.scrollToItem(index, "smart", 0).catch(() => undefined);
  if (isCode(cell)) cell.outputHidden = false;
  if (isCode(cell) && cell.model.outputs.length === 0) return false;
  const card = await cardIn(cell);
  card?.scrollIntoView({ block: "nearest" });
  (card ?? cell.node).focus({ preventScroll: true });
  return true;
}

/** It may have to be drawn first. */
async function cardIn(cell: Cell): Promise<HTMLElement | null> {
  const until = Date.now() + FIND_MS;
  // JupyterLab gives the focus to a notebook that comes to the front a moment after it came.
  await frame();
  for (;;) {
    await frame();
    const card = cell.node.querySelector<HTMLElement>('.ak-run [data-turn="you"]');
    if (card !== null || Date.now() > until) return card;
  }
}

function frame(): Promise<void> {
  return new Promise((done) => requestAnimationFrame(() => done()));
}

function isCode(cell: Cell): cell is CodeCell {
  return cell.model.type === "code";
}

function withMark(classes: string): string {
  return classes.split(" ").includes(MARK) ? classes : `${classes} ${MARK}`.trim();
}

function withoutMark(classes: string): string {
  return classes
    .split(" ")
    .filter((name) => name !== MARK)
    .join(" ");
}
