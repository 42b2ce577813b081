/** A run in the panel: its prompt, how it stands, the way to its cell, and its cards once it is opened. */
import type { GoToRun } from "./goToRun";
import { type ListedRun, standOf, waitingRuns } from "./listedRuns";
import { showRun } from "./runOutput";

const PROMPT_CHARACTERS = 200;
const NO_CARDS = "The cards could not be loaded. Reload the page, or restart the server.";

export class RunEntry {
  readonly node = document.createElement("li");
  private readonly head = document.createElement("button");
  private readonly stand = document.createElement("span");
  private readonly cell = document.createElement("button");
  private readonly cards = document.createElement("div");
  private view: HTMLElement | null = null;
  private unmount: (() => void) | null = null;

  constructor(
    public run: ListedRun,
    goTo: GoToRun,
  ) {
    this.node.dataset["run"] = run.run_id;
    this.head.type = this.cell.type = "button";
    this.head.className = "agent-kernel-run-head";
    this.head.setAttribute("aria-expanded", "false");
    const prompt = this.head.appendChild(document.createElement("b"));
    prompt.textContent = run.prompt.slice(0, PROMPT_CHARACTERS).trim().replaceAll(/\s+/g, " ");
    this.stand.title = new Date(run.started_at).toLocaleString();
    this.head.append(this.stand);
    this.head.addEventListener("click", () => (this.isOpen ? this.close() : this.open()));
    this.cell.className = "agent-kernel-run-cell";
    this.cell.textContent = run.cell_id === null ? "Go to notebook" : "Go to cell";
    this.cell.hidden = run.notebook === null;
    this.cell.addEventListener("click", () => void goTo(this.run, waitingRuns([this.run]).length > 0));
    this.cards.hidden = true;
    this.node.append(this.head, this.cell, this.cards);
  }

  get isOpen(): boolean {
    return !this.cards.hidden;
  }

  update(run: ListedRun, now: number): void {
    this.run = run;
    const [word = "", ...figures] = standOf(run, now);
    const words = [word, ...figures.map((figure) => figure.replaceAll(" ", "\u00a0"))].join(" · ");
    if (this.stand.textContent !== words) this.stand.textContent = words;
    this.node.toggleAttribute("data-waits", waitingRuns([run]).length > 0);
  }

  open(): void {
    if (this.isOpen) return;
    this.cards.hidden = false;
    this.head.setAttribute("aria-expanded", "true");
    const view = (this.view = this.cards.appendChild(document.createElement("div")));
    showRun(view, this.run).then(
      (unmount) => {
        if (this.view === view) this.unmount = unmount;
        else unmount();
      },
      (error: unknown) => {
        console.error(error);
        view.textContent = NO_CARDS;
      },
    );
  }

  close(): void {
    this.cards.hidden = true;
    this.head.setAttribute("aria-expanded", "false");
    this.unmount?.();
    this.unmount = this.view = null;
    this.cards.replaceChildren();
  }
}
