/** Undo in records, after their run: what calls changed in files and cells is put back, one by one or all of a run,
 * as long as the kernel or the server knows the way.
 *
 * A record comes from the file, and says which run it is of; what can be undone, and what it is called, the server says,
 * of the notebook's own kernel only. Buttons stand in the page, not in the notebook. */
import { URLExt } from "@jupyterlab/coreutils";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { ServerConnection } from "@jupyterlab/services";
import { RECORD } from "../../src/ui/notebook";
import { allOf, type Change, type Offer, offersOf } from "./changes";
import { actions, button } from "./elements";

const ROWS = "agent-kernel-undo";
const RUN = "data-agent-record";
/** Cells that run one after another change files together. */
const SETTLE_MS = 300;

const WORKING = "Working…";

/** Ask the server, which answers in the row. */
type Press = (path: string, row: HTMLElement) => void;

export class UndoOffers {
  constructor(private readonly settings: ServerConnection.ISettings) {}

  watch(panel: NotebookPanel): void {
    let due: ReturnType<typeof setTimeout> | undefined;
    const look = (): void => {
      clearTimeout(due);
      due = setTimeout(() => void this.look(panel).catch(() => show(panel, [])), SETTLE_MS);
    };
    const changes = new MutationObserver((records) => {
      if (records.some(({ addedNodes }) => [...addedNodes].some(holdsRecord))) look();
    });
    changes.observe(panel.content.node, { childList: true, subtree: true });
    // A cell that ends may have changed a file; a kernel that is started again knows no way back.
    panel.sessionContext.statusChanged.connect((_, status) => {
      if (status !== "busy" && recordsOf(panel).length > 0) look();
    });
    panel.sessionContext.kernelChanged.connect(look);
    panel.disposed.connect(() => {
      clearTimeout(due);
      changes.disconnect();
    });
    look();
  }

  private async look(panel: NotebookPanel): Promise<void> {
    const kernelId = panel.sessionContext.session?.kernel?.id;
    if (panel.isDisposed || !recordsOf(panel).some(hasCalls)) return;
    const asked =
      kernelId === undefined ? null : await this.request(`changes?kernel_id=${encodeURIComponent(kernelId)}`, "GET");
    // Without the server extension, or its log, there is nothing to undo.
    const changes: unknown = asked?.ok === true ? await asked.json() : [];
    if (!panel.isDisposed)
      show(panel, Array.isArray(changes) ? (changes as Change[]) : [], (path, row) => void this.undo(panel, path, row));
  }

  private async undo(panel: NotebookPanel, path: string, row: HTMLElement): Promise<void> {
    let refusal = "The server did not answer. Nothing is known of what was changed; try again.";
    try {
      const answer = await this.request(path, "POST");
      const said = (await answer.json()) as { message?: string };
      refusal = answer.ok ? "" : (said.message ?? refusal);
    } catch {
      // said below
    }
    // Of what a run can't put back each row says why.
    if (refusal === "") await this.look(panel);
    else say(row, `Not done. ${refusal}`);
  }

  private request(path: string, method: "GET" | "POST"): Promise<Response> {
    const address = URLExt.join(this.settings.baseUrl, "agent-kernel/api", path);
    return ServerConnection.makeRequest(address, { method }, this.settings);
  }
}

function holdsRecord(node: Node): boolean {
  return node instanceof Element && (node.matches(RECORD) || node.querySelector(RECORD) !== null);
}

function recordsOf(panel: NotebookPanel): HTMLElement[] {
  return [...panel.content.node.querySelectorAll<HTMLElement>(`.jp-OutputArea-output [${RUN}]`)];
}

/** A run without calls has changed nothing. */
function hasCalls(record: HTMLElement): boolean {
  return record.querySelector(".agent-call") !== null;
}

function show(panel: NotebookPanel, changes: readonly Change[], press: Press = () => undefined): void {
  for (const record of recordsOf(panel).filter(hasCalls)) {
    const runId = record.getAttribute(RUN) ?? "";
    const offers = offersOf(runId, changes);
    const all = allOf(runId, changes);
    if (all !== null) offers.unshift(all);
    const old = record.querySelector<HTMLElement>(`.${ROWS}`);
    const said = JSON.stringify(offers);
    if (old?.dataset["said"] === said) continue; // what has the focus keeps it
    old?.remove();
    if (offers.length > 0) record.append(rowsOf(offers, said, press));
  }
}

function rowsOf(offers: readonly Offer[], said: string, ask: Press): HTMLElement {
  const rows = offers.map((offer) => {
    const row = document.createElement("div");
    const press = (at: HTMLButtonElement): void => {
      if (at.getAttribute("aria-disabled") === "true") return;
      at.setAttribute("aria-disabled", "true");
      say(row, WORKING);
      ask(offer.path, row);
    };
    if (offer.button !== null) row.append(button(offer.button, press));
    row.appendChild(document.createElement("span")).textContent = offer.words;
    return row;
  });
  const all = actions(ROWS, ...rows);
  all.dataset["said"] = said;
  return all;
}

/** In place of what stood beside the button. What was refused can be tried again. */
function say(row: HTMLElement, words: string): void {
  const span = row.querySelector("span");
  if (span === null) return;
  span.setAttribute("role", "status");
  span.textContent = words;
  if (words !== WORKING) row.querySelector("button")?.removeAttribute("aria-disabled");
}
