/** Loads the front end of the cards when a notebook that has a prompt is opened, and the runs that go on in it. */
import { loadAhead } from "../../src/served";

/** What a cell has that asks an agent, or loads what does. */
const PROMPTS = ["agent_kernel", "%agent"];
/** Conversations that are connected before anything shows them. */
const MOST_AHEAD = 4;

/** Of JupyterLab's notebooks, what is looked at here. */
interface Panel {
  readonly context: { readonly path: string; readonly ready: Promise<void> };
  readonly content: { readonly widgets: readonly { readonly model: CellModel }[] };
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
  tracker.widgetAdded.connect((_, panel) => void panel.context.ready.then(() => look(panel)));
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
    if (conversations.size > 0) loadAhead([...conversations].slice(0, MOST_AHEAD));
  };
}

function look({ content }: Panel): void {
  const code = content.widgets.filter(({ model }) => model.type === "code");
  const asks = code.some(({ model }) => PROMPTS.some((prompt) => model.sharedModel.getSource().includes(prompt)));
  if (asks) loadAhead();
}
