/** The page's connection to the server: it says which notebooks are open here, and answers what is asked of them. */
import { URLExt } from "@jupyterlab/coreutils";
import type { INotebookCellExecutor, INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { ServerConnection } from "@jupyterlab/services";
import { Poll } from "@lumino/polling";
import { Signal } from "@lumino/signaling";
import type { NotebooksOpened, PageRequest, RunsBegan } from "../../src/protocol";
import { type Answer, changeCell, readCells, runOne } from "./cells";
import { putRun, shownRuns } from "./documents";

const TRY_EVERY_MS = 1_000;
const MOST_SHOWN = 500;
/** A server that has started again soon takes the page for gone. */
const TRY_AT_MOST_EVERY_MS = 15_000;

/** An output shows a run that has ended, as where a cell was pasted after that: the server has its record. */
export const endedShown = new Signal<object, void>({});

/** A run has begun of which no kernel tells this page: that of an agent outside. */
export const runsBegan = new Signal<object, void>({});

export class OpenNotebooks {
  private socket: WebSocket | null = null;
  private said = "";
  private readonly poll = new Poll({
    auto: false,
    name: "agent-kernel:pages",
    factory: () => this.connect(),
    frequency: { interval: TRY_EVERY_MS, backoff: true, max: TRY_AT_MOST_EVERY_MS },
    standby: "never",
  });

  constructor(
    private readonly tracker: INotebookTracker,
    private readonly settings: ServerConnection.ISettings,
    private readonly executor: INotebookCellExecutor | null,
  ) {
    tracker.widgetAdded.connect((_, panel) => this.watch(panel));
    // The server asks the page that was looked at last: of two windows beside each other, the one that has the focus.
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.say(true);
    });
    window.addEventListener("focus", () => this.say(true));
    endedShown.connect(() => this.say(true));
  }

  private watch(panel: NotebookPanel): void {
    const say = (): void => this.say();
    void panel.context.ready.then(() => {
      say();
      void this.poll.start();
    });
    panel.context.pathChanged.connect(say);
    panel.sessionContext.kernelChanged.connect(say);
    panel.disposed.connect(() => queueMicrotask(say));
  }

  /** Ends when there is a connection; without one it is tried again after a pause. */
  private async connect(): Promise<void> {
    if (this.socket !== null) return this.poll.stop();
    const { wsUrl, token, appendToken, WebSocket: Socket } = this.settings;
    const address = URLExt.join(wsUrl, "agent-kernel/api/pages");
    const query = appendToken && token !== "" ? `?token=${encodeURIComponent(token)}` : "";
    const socket = new Socket(address + query);
    await new Promise<void>((resolve, reject) => {
      socket.onopen = () => resolve();
      socket.onclose = () => reject(new Error("The server does not answer."));
    });
    this.socket = socket;
    socket.onclose = () => {
      this.socket = null;
      void this.poll.start();
    };
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data as string) as PageRequest | RunsBegan;
      if ("request_id" in message) void this.answer(message);
      else runsBegan.emit();
    };
    this.say(true);
    await this.poll.stop();
  }

  private say(again = false): void {
    const notebooks: NotebooksOpened["notebooks"] = this.panels().map((panel) => ({
      path: panel.context.localPath,
      kernel_id: panel.sessionContext.session?.kernel?.id ?? null,
      shared: panel.content.model?.collaborative === true,
      shows: shownRuns(panel).slice(-MOST_SHOWN),
    }));
    const said = JSON.stringify({ type: "notebooks", notebooks } satisfies NotebooksOpened);
    if (this.socket === null || (said === this.said && !again)) return;
    this.said = said;
    this.socket.send(said);
  }

  private panels(): NotebookPanel[] {
    const panels: NotebookPanel[] = [];
    this.tracker.forEach((panel) => {
      if (!panel.isDisposed && panel.context.isReady) panels.push(panel);
    });
    return panels;
  }

  private async answer({ request_id, path, ask }: PageRequest): Promise<void> {
    const panel = this.panels().find(({ context }) => context.localPath === path);
    let answer: Answer;
    try {
      if (panel === undefined) answer = { refusal: "closed" };
      else if (ask.type === "read") answer = readCells(panel, ask);
      else if (ask.type === "change") answer = changeCell(panel, ask);
      else if (ask.type === "put") answer = putRun(panel, ask);
      else answer = await runOne(panel, ask, this.executor);
    } catch (error) {
      answer = { refusal: "failed", detail: String(error).slice(0, 500) };
    }
    this.socket?.send(JSON.stringify({ type: "answer", request_id, ...answer }));
  }
}
