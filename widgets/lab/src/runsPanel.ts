/** What waits and what ran, in all notebooks of the server: a side panel with each run's cards, to decide right there. */
import { Poll } from "@lumino/polling";
import { Widget } from "@lumino/widgets";
import { agentIcon } from "./ask";
import { cardIn, type GoToRun } from "./goToRun";
import { byNotebook, countOf, type ListedRun, summary } from "./listedRuns";
import type { OpenRuns } from "./openRuns";
import { RunEntry } from "./runEntry";
import { COUNT } from "./waitingMarks";

const TITLE = "What Waits and What Ran";
const NOTHING = "Nothing has run yet. A cell that begins with %%agent asks the agent.";
/** The newest that have ended. */
const ENDED_RUNS = 500;
/** While it is seen, so that runs of other pages come into it. */
const LIST_EVERY_MS = 10_000;

export class RunsPanel extends Widget {
  private readonly summary = document.createElement("p");
  private readonly list = document.createElement("div");
  private readonly entries = new Map<string, RunEntry>();
  /** By notebook, its heading and list. */
  private readonly sections = new Map<string | null, HTMLElement>();
  /** The runs that stand first: those that wait, and those that have waited since nobody works here. */
  private readonly first = new Set<string>();
  private listed: readonly ListedRun[] = [];
  private open = "";
  private readonly poll: Poll;

  constructor(
    private readonly runs: OpenRuns,
    private readonly goTo: GoToRun,
  ) {
    super();
    this.id = "agent-kernel-runs";
    this.addClass("agent-kernel-runs");
    this.title.icon = agentIcon;
    this.node.setAttribute("role", "region");
    this.node.setAttribute("aria-label", TITLE);
    this.summary.setAttribute("role", "status");
    this.node.append(this.summary, this.list);
    this.list.addEventListener("keydown", (event) => this.move(event));
    this.poll = new Poll({
      auto: false,
      name: "agent-kernel:runs",
      factory: async () => this.showRuns(await runs.list(ENDED_RUNS)),
      frequency: { interval: LIST_EVERY_MS, backoff: true },
    });
    runs.listed.connect((_, open) => this.takeOpen(open));
    this.count();
  }

  /** Opens the card of what waits first, and gives it the focus. */
  async showWaiting(): Promise<void> {
    this.showRuns(await this.runs.list(ENDED_RUNS));
    const waiting = new Set(this.runs.waiting.map(({ run }) => run.run_id));
    const entry = [...this.list.querySelectorAll<HTMLElement>("[data-run]")]
      .map((node) => this.entries.get(node.dataset["run"] ?? ""))
      .find((one) => one !== undefined && waiting.has(one.run.run_id));
    if (entry === undefined) return;
    entry.open();
    entry.node.scrollIntoView({ block: "nearest" });
    (await cardIn(entry.node))?.focus();
  }

  protected override onAfterShow(): void {
    this.runs.expect();
    void this.poll.refresh();
  }

  protected override onBeforeHide(): void {
    void this.poll.stop();
  }

  /** What is open now is known at once; what has ended is read when it has. */
  private takeOpen(open: readonly ListedRun[]): void {
    this.count();
    if (!this.isVisible) return;
    const ids = open.map(({ run_id: id }) => id).join();
    if (ids !== this.open) void this.poll.refresh();
    this.open = ids;
    const news = new Map(open.map((run) => [run.run_id, run]));
    this.showRuns(this.listed.map((run) => news.get(run.run_id) ?? run));
  }

  private count(): void {
    const words = summary(this.runs.waiting);
    const count = String(countOf(this.runs.waiting));
    this.title.caption = words === "" ? TITLE : `${TITLE}: ${words}`;
    if (this.title.dataset[COUNT] !== count) this.title.dataset = { [COUNT]: count };
    if (this.summary.textContent !== words) this.summary.textContent = words;
  }

  private showRuns(runs: readonly ListedRun[]): void {
    this.listed = runs;
    // What a person works on stays where it is.
    const isInUse = this.node.contains(document.activeElement) || [...this.entries.values()].some((one) => one.isOpen);
    if (!isInUse) this.first.clear();
    for (const { run } of this.runs.waiting) this.first.add(run.run_id);
    const groups = byNotebook(runs, this.first);
    this.forget(runs);
    const now = Date.now();
    place(
      this.list,
      groups.map(({ notebook, runs: its }) => {
        const section = this.sections.get(notebook) ?? sectionOf(notebook, this.goTo);
        this.sections.set(notebook, section);
        place(
          section.lastElementChild!,
          its.map((run) => this.entry(run, now)),
        );
        return section;
      }),
    );
    if (runs.length === 0) this.list.textContent = NOTHING;
  }

  private entry(run: ListedRun, now: number): HTMLElement {
    const entry = this.entries.get(run.run_id) ?? new RunEntry(run, this.goTo);
    this.entries.set(run.run_id, entry);
    entry.update(run, now);
    return entry.node;
  }

  /** Those that are not listed any more. */
  private forget(runs: readonly ListedRun[]): void {
    const ids = new Set(runs.map(({ run_id: id }) => id));
    for (const [id, entry] of this.entries) {
      if (ids.has(id)) continue;
      entry.close();
      this.entries.delete(id);
    }
    const notebooks = new Set(runs.map(({ notebook }) => notebook));
    for (const notebook of this.sections.keys()) if (!notebooks.has(notebook)) this.sections.delete(notebook);
  }

  /** Up, Down, Home and End go from run to run. */
  private move(event: KeyboardEvent): void {
    const heads = [...this.list.querySelectorAll<HTMLElement>(".agent-kernel-run-head")];
    const at = heads.indexOf(event.target as HTMLElement);
    const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: heads.length - 1 }[event.key];
    if (at < 0 || to === undefined || heads[to] === undefined) return;
    event.preventDefault();
    heads[to].focus();
  }
}

/** Puts elements into a parent in their order. Those that are in their place are left alone: what has the focus keeps it. */
function place(parent: Element, wanted: readonly Element[]): void {
  const kept = new Set<ChildNode>(wanted);
  for (const child of [...parent.childNodes]) if (!kept.has(child)) child.remove();
  let next = parent.firstChild;
  for (const child of wanted) {
    if (child === next) next = next.nextSibling;
    else parent.insertBefore(child, next);
  }
}

function sectionOf(notebook: string | null, goTo: GoToRun): HTMLElement {
  const section = document.createElement("section");
  const heading = section.appendChild(document.createElement("h2"));
  heading.textContent = notebook ?? "Without a notebook";
  if (notebook !== null) {
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Open the notebook";
    button.textContent = notebook;
    button.addEventListener("click", () => void goTo({ notebook, kernel_id: null, cell_id: null }, false));
    heading.replaceChildren(button);
  }
  section.append(document.createElement("ul"));
  return section;
}
