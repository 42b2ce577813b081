/** What waits and what ran, in all notebooks of the server: a side panel with each run's cards, to decide right there. */
import { Poll } from "@lumino/polling";
import { Widget } from "@lumino/widgets";
import { type JSX, render } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { agentIcon } from "./ask";
import { cardIn, type GoToRun } from "./goToRun";
import { byNotebook, countOf, type ListedRun, type NotebookRuns, standOf, summary, waitingRuns } from "./listedRuns";
import type { OpenRuns } from "./openRuns";
import { showRun } from "./runOutput";
import { COUNT } from "./waitingMarks";

const TITLE = "What Waits and What Ran";
const NOTHING = "Nothing has run yet. A cell that begins with %%agent asks the agent.";
const NO_CARDS =
  "The cards could not be loaded. Reload the page. If that does not help, stop the Jupyter server and start it again, which ends its kernels.";
const PROMPT_CHARACTERS = 200;
/** The newest that have ended. */
const ENDED_RUNS = 500;
/** While it is seen, so that runs of other pages come into it. */
const LIST_EVERY_MS = 10_000;

export class RunsPanel extends Widget {
  /** The runs that stand first: those that wait, and those that have waited since nobody works here. */
  private readonly first = new Set<string>();
  /** The runs whose cards are shown. */
  private readonly opened = new Set<string>();
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
    this.node.addEventListener("keydown", (event) => this.move(event));
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
    const entries = [...this.node.querySelectorAll<HTMLElement>("[data-run]")];
    const entry = entries.find(({ dataset }) => waiting.has(dataset["run"] ?? ""));
    if (entry === undefined) return;
    this.opened.add(entry.dataset["run"] ?? "");
    this.draw();
    entry.scrollIntoView({ block: "nearest" });
    (await cardIn(entry))?.focus();
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
  }

  private showRuns(runs: readonly ListedRun[]): void {
    this.listed = runs;
    const ids = new Set(runs.map(({ run_id: id }) => id));
    for (const id of this.opened) if (!ids.has(id)) this.opened.delete(id);
    // What a person works on stays where it is.
    if (!this.node.contains(document.activeElement) && this.opened.size === 0) this.first.clear();
    for (const { run } of this.runs.waiting) this.first.add(run.run_id);
    this.draw();
  }

  private draw(): void {
    const groups = byNotebook(this.listed, this.first);
    render(
      <>
        <p role="status">{summary(this.runs.waiting)}</p>
        {groups.length === 0 ? NOTHING : groups.map((group) => this.section(group))}
      </>,
      this.node,
    );
  }

  private section({ notebook, runs }: NotebookRuns): JSX.Element {
    const open = (): void => void this.goTo({ notebook, kernel_id: null, cell_id: null }, false);
    return (
      <section key={notebook}>
        <h2>
          {notebook === null ? (
            "Without a notebook"
          ) : (
            <button type="button" title="Open the notebook" onClick={open}>
              {notebook}
            </button>
          )}
        </h2>
        <ul>{runs.map((run) => this.entry(run))}</ul>
      </section>
    );
  }

  /** A run: its prompt, how it stands, the way to its cell, and its cards once it is opened. */
  private entry(run: ListedRun): JSX.Element {
    const [word = "", ...figures] = standOf(run, Date.now());
    const waits = waitingRuns([run]).length > 0;
    const isOpen = this.opened.has(run.run_id);
    const press = (): void => {
      if (!this.opened.delete(run.run_id)) this.opened.add(run.run_id);
      this.draw();
    };
    return (
      <li key={run.run_id} data-run={run.run_id} data-waits={waits ? "" : undefined}>
        <button type="button" class="agent-kernel-run-head" aria-expanded={isOpen} onClick={press}>
          <b>{run.prompt.slice(0, PROMPT_CHARACTERS).trim().replaceAll(/\s+/g, " ")}</b>
          <span title={new Date(run.started_at).toLocaleString()}>
            {[word, ...figures.map((figure) => figure.replaceAll(" ", "\u00a0"))].join(" · ")}
          </span>
        </button>
        <button
          type="button"
          class="agent-kernel-run-cell"
          hidden={run.notebook === null}
          onClick={() => void this.goTo(run, waits)}
        >
          {run.cell_id === null ? "Go to notebook" : "Go to cell"}
        </button>
        {isOpen && <Cards run={run} />}
      </li>
    );
  }

  /** Up, Down, Home and End go from run to run. */
  private move(event: KeyboardEvent): void {
    const heads = [...this.node.querySelectorAll<HTMLElement>(".agent-kernel-run-head")];
    const at = heads.indexOf(event.target as HTMLElement);
    const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: heads.length - 1 }[event.key];
    if (at < 0 || to === undefined || heads[to] === undefined) return;
    event.preventDefault();
    heads[to].focus();
  }
}

function Cards({ run }: { run: ListedRun }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [failed, fail] = useState(false);
  useLayoutEffect(() => {
    let isGone = false;
    let unmount = (): void => undefined;
    showRun(place.current!, run).then(
      (end) => {
        unmount = end;
        if (isGone) end();
      },
      (error: unknown) => {
        console.error(error);
        fail(true);
      },
    );
    return () => {
      isGone = true;
      unmount();
    };
  }, [run.run_id]);
  return <div ref={place}>{failed && NO_CARDS}</div>;
}
