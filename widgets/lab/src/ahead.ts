/** Loads the front end of the cards when a notebook that has a prompt is opened. */
import { loadAhead } from "../../src/served";

/** What a cell has that asks an agent, or loads what does. */
const PROMPTS = ["agent_kernel", "%agent"];

/** Of JupyterLab's notebooks, what is looked at here. */
interface Panel {
  readonly context: { readonly ready: Promise<void> };
  readonly content: { readonly widgets: readonly { readonly model: CellModel }[] };
}

interface CellModel {
  readonly type: string;
  readonly sharedModel: { getSource(): string };
}

interface Tracker {
  readonly widgetAdded: { connect(opened: (tracker: unknown, panel: Panel) => void): unknown };
}

export function loadsAhead(tracker: Tracker): void {
  tracker.widgetAdded.connect((_, panel) => void panel.context.ready.then(() => look(panel)));
}

function look({ content }: Panel): void {
  const code = content.widgets.filter(({ model }) => model.type === "code");
  const asks = code.some(({ model }) => PROMPTS.some((prompt) => model.sharedModel.getSource().includes(prompt)));
  if (asks) loadAhead();
}
