/** The runs that have not ended, as the server knows them: it is asked as long as there is one. */
import { URLExt } from "@jupyterlab/coreutils";
import type { INotebookTracker } from "@jupyterlab/notebook";
import { ServerConnection } from "@jupyterlab/services";
import { Poll } from "@lumino/polling";
import { Signal } from "@lumino/signaling";
import { type ListedRun, type Waiting, waitingRuns } from "./listedRuns";
import type { Settings } from "./settings";

/** The kernel's own messages to the server pass through the page, too: a run begins, or goes on. */
const FROM_KERNEL = "agent_kernel_event";
const ASK_EVERY_MS = 2_000;
const ASK_AT_MOST_EVERY_MS = 60_000;
/** So long after a kernel spoke of a run the server is asked, though it knows of none yet. */
const EXPECT_MS = 10_000;

export class OpenRuns {
  /** Those that wait for a person. */
  waiting: readonly Waiting[] = [];
  /** Tells of all runs that are open, as often as the server is asked. */
  readonly listed = new Signal<this, readonly ListedRun[]>(this);
  private expectUntil = 0;
  private readonly poll: Poll;

  constructor(
    tracker: INotebookTracker,
    private readonly server: ServerConnection.ISettings,
    settings: Settings,
  ) {
    this.poll = new Poll({
      auto: false,
      name: "agent-kernel:open-runs",
      factory: () => this.ask(),
      frequency: { interval: ASK_EVERY_MS, backoff: true, max: ASK_AT_MOST_EVERY_MS },
      // A page in the background may still notify.
      standby: () => (settings.notifiesOnDesktop ? "never" : "when-hidden"),
    });
    tracker.widgetAdded.connect((_, { sessionContext }) => {
      sessionContext.iopubMessage.connect((_, message) => {
        if ((message.header.msg_type as string) === FROM_KERNEL) this.expect();
      });
      this.expect();
    });
  }

  /** Reads the runs that are open, and so many that have ended, the oldest first. */
  async list(limit: number): Promise<readonly ListedRun[]> {
    return listRuns(this.server, { ...(limit === 0 && { state: "open" }), limit: String(limit) });
  }

  /** Asks for a while, as a run may have begun. */
  expect(): void {
    const asking = Date.now() < this.expectUntil || this.waiting.length > 0;
    this.expectUntil = Date.now() + EXPECT_MS;
    if (!asking) void this.poll.refresh();
  }

  private async ask(): Promise<void> {
    const open = await this.list(0);
    this.waiting = waitingRuns(open);
    this.listed.emit(open);
    if (open.length === 0 && Date.now() > this.expectUntil) void this.poll.stop();
  }
}

/** As the server filters and limits them, the oldest first. None where it can't say. */
export async function listRuns(
  settings: ServerConnection.ISettings,
  query: Readonly<Record<string, string>>,
): Promise<readonly ListedRun[]> {
  const address = URLExt.join(settings.baseUrl, "agent-kernel/api/runs") + URLExt.objectToQueryString(query);
  const response = await ServerConnection.makeRequest(address, {}, settings);
  // Without the server extension, or its log, there is nothing to show.
  const runs: unknown = response.ok ? await response.json() : [];
  return Array.isArray(runs) ? (runs as ListedRun[]) : [];
}
