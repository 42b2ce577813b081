/** Loads the front end of the cards when a notebook that has a prompt is opened, the runs that go on in it, and those
 * that begin. */
import { loadAhead } from "../../src/served";

/** What a cell has that asks an agent, or loads what does. */
const PROMPTS = ["agent_kernel", "%agent"];

/** Of JupyterLab's notebooks, what is looked at here. */
interface Panel {
  readonly context: { readonly path: string; readonly ready: Promise<void> };
  readonly content: { readonly widgets: readonly { readonly model: CellModel }[] };
  readonly sessionContext: { readonly kernelChanged: Signal<{ readonly newValue: Kernel | null }> };
}

interface Signal<T> {
  connect(heard: (sender: unknown, value: T) => void): unknown;
}

interface Kernel {
  /** Each message as it comes. JupyterLab hands it to its widgets first, which take a while. */
  readonly anyMessage: Signal<{ readonly msg: Message }>;
}

interface Message {
  readonly header: { readonly msg_type: string };
  readonly content: object;
}

/** Of a message with which a kernel opens a widget, what is read here. */
interface Opened {
  readonly data?: { readonly state?: { readonly [name: string]: unknown } };
}

interface CellModel {
  readonly type: string;
  readonly sharedModel: { getSource(): string };
}

interface Tracker {
  readonly widgetAdded: { connect(opened: (tracker: unknown, panel: Panel) => void): unknown };
}

/** Of the server's list of runs, what is read here. */
interface OpenRun {
  readonly conversation_id: string;
  readonly notebook: string | null;
}

type Shows = Pick<Panel, "context">;

export function loadsAhead(tracker: Tracker): void {
  tracker.widgetAdded.connect((_, panel) => {
    panel.sessionContext.kernelChanged.connect((_, { newValue }) => {
      newValue?.anyMessage.connect((_, { msg }) => connectBegun(msg));
    });
    void panel.context.ready.then(() => look(panel));
  });
}

/** What has the conversations of open runs ready for the notebooks that show them; each of these is looked at once, as
 * it is opened, because a run that begins later comes by itself. */
export function connectsAhead(): (panels: readonly Shows[], open: readonly OpenRun[]) => void {
  const known = new WeakSet<Shows>();
  return (panels, open) => {
    const paths = new Set(panels.filter((panel) => !known.has(panel)).map(({ context }) => context.path));
    for (const panel of panels) known.add(panel);
    const here = open.filter(({ notebook }) => notebook !== null && paths.has(notebook));
    const conversations = new Set(here.map((run) => run.conversation_id));
    if (conversations.size > 0) loadAhead([...conversations]);
  };
}

/** A run's widget has been opened: its conversation comes while the page makes the view of it. */
function connectBegun({ header, content }: Message): void {
  if (header.msg_type !== "comm_open") return;
  const { conversation_id: id, run_id: run, transport } = (content as Opened).data?.state ?? {};
  if (typeof id === "string" && typeof run === "string" && transport !== "kernel") loadAhead([id]);
}

function look({ content }: Panel): void {
  const code = content.widgets.filter(({ model }) => model.type === "code");
  const asks = code.some(({ model }) => PROMPTS.some((prompt) => model.sharedModel.getSource().includes(prompt)));
  if (asks) loadAhead();
}
