/** Draws a run in its cell's output, trusted or not, without a widget and before a kernel has started: from the server
 * alone. Only where that says that the run belongs to this notebook, as the output comes from a file. */
import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { CodeCell } from "@jupyterlab/cells";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { IRenderMimeRegistry } from "@jupyterlab/rendermime";
import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { Panel, Widget } from "@lumino/widgets";
import { GONE, WIDGET_VIEW, type WidgetManager } from "../../src/card/notebookRenderers";
import { fromServer, widgetManagers } from "../../src/served";
import { isCode } from "./ask";
import { RUN_VIEW } from "./documents";
import { watchDrawn, actions, button } from "./elements";
import type { ListedRun } from "./listedRuns";
import { listRuns } from "./openRuns";
import { endedShown } from "./pages";

/** Before widgets, whose rank is -10. */
const RANK = -20;
/** A prompt's output is here before the server knows of its run: the pauses (ms) after which it is asked again. */
const ASK_AGAIN = [100, 200, 400, 800, 1_600, 3_200];
const TRUST = "Trust this notebook to see the cards";

export function rendersRuns(app: JupyterFrontEnd, tracker: INotebookTracker, rendermime: IRenderMimeRegistry): void {
  rendermime.addFactory(
    {
      safe: true,
      mimeTypes: [RUN_VIEW],
      defaultRank: RANK,
      createRenderer: ({ resolver }) => new RunOutput(app, tracker, rendermime, resolver),
    },
    RANK,
  );
}

class RunOutput extends Panel implements IRenderMime.IRenderer {
  private unmount = (): void => undefined;
  /** The run that is shown, or looked for. */
  private runId: string | null = null;
  /** What this shows is of: an earlier attempt that ends late shows nothing. */
  private attempt = 0;

  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly tracker: INotebookTracker,
    private readonly rendermime: IRenderMimeRegistry,
    private readonly resolver: IRenderMime.IResolver | null,
  ) {
    super();
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { run_id: id } = Object(model.data[RUN_VIEW]) as { run_id?: unknown }; // of any form, in a file
    const runId = typeof id === "string" ? id : null;
    // The document says how the run stands as it goes on; its cards know.
    if (runId !== null && runId === this.runId) return;
    const attempt = this.clear();
    this.runId = runId;
    const panel = this.panel();
    try {
      const run = panel === null || runId === null ? null : await this.find(runId, "text/html" in model.data, panel);
      if (attempt !== this.attempt) return;
      if (panel === null || run === null) return this.showOther(model, panel);
      if (run.ended_at != null) endedShown.emit();
      const unmount = await showRun(this.node, run, notebookWidgets(run.run_id, panel));
      if (attempt === this.attempt) this.unmount = unmount;
      else unmount();
    } catch (error) {
      console.error(error);
      if (attempt === this.attempt) this.showOther(model, panel);
    }
  }

  override dispose(): void {
    if (!this.isDisposed) this.clear();
    super.dispose();
  }

  private clear(): number {
    this.runId = null;
    this.unmount();
    this.unmount = () => undefined;
    for (const shown of [...this.widgets]) shown.dispose();
    return (this.attempt += 1);
  }

  /** The notebook that the output is of. */
  private panel(): NotebookPanel | null {
    const path = (this.resolver as { path?: unknown } | null)?.path;
    return this.tracker.find(({ context }) => context.path === path) ?? null;
  }

  /** What was saved while the run went on is no news to the server. */
  private async find(runId: string, isSaved: boolean, { context }: NotebookPanel): Promise<ListedRun | null> {
    void fromServer().catch(() => undefined);
    const { serverSettings } = this.app.serviceManager;
    const query = { run_id: runId, notebook: context.localPath };
    const { attempt } = this;
    for (const pause of [...(isSaved ? [] : ASK_AGAIN), null]) {
      const [run] = await listRuns(serverSettings, query).catch(() => []);
      if (run !== undefined || pause === null || attempt !== this.attempt) return run ?? null;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    return null;
  }

  /** As the notebook would without this renderer. */
  private showOther({ data, metadata, trusted }: IRenderMime.IMimeModel, panel: NotebookPanel | null): void {
    this.runId = null;
    const rendermime = panel?.content.rendermime ?? this.rendermime;
    const { [RUN_VIEW]: _, ...others } = data;
    const mime = rendermime.preferredMimeType(others, trusted ? "any" : "ensure");
    if (mime !== undefined) {
      const renderer = rendermime.createRenderer(mime);
      this.addWidget(renderer);
      void renderer.renderModel(rendermime.createModel({ data: others, metadata, trusted }));
    }
    if (!trusted && WIDGET_VIEW in data && panel !== null) this.addWidget(trustOffer(this.app, panel));
  }
}

function trustOffer({ shell, commands }: JupyterFrontEnd, panel: NotebookPanel): Widget {
  const press = (): void => {
    shell.activateById(panel.id);
    void commands.execute("notebook:trust");
  };
  return new Widget({ node: actions("", button(TRUST, press)) });
}

/** Ends by what it gives back. Throws where the server has no front end of this version. */
export async function showRun(
  el: HTMLElement,
  { run_id, conversation_id, prompt }: ListedRun,
  widget_manager?: WidgetManager,
): Promise<() => void> {
  // A browser remembers that a module could not be loaded.
  const { default: frontEnd } = await fromServer().catch(() => fromServer(`?${Date.now()}`));
  const traits: Readonly<Record<string, string>> = { run_id, conversation_id, prompt, transport: "server" };
  const nothing = (): void => undefined;
  const model = { get: (name: string) => traits[name] ?? "", widget_manager, on: nothing, off: nothing, send: nothing };
  return frontEnd.render({ model, el });
}

/** What a notebook draws outputs with; its widgets, once its kernel has told it of the run's own one. */
export function notebookWidgets(runId: string, { content }: NotebookPanel): WidgetManager {
  const manager = (): WidgetManager => widgetManagers.get(runId) ?? {};
  return {
    rendermime: content.rendermime as unknown as NonNullable<WidgetManager["rendermime"]>,
    has_model: (id) => manager().has_model?.(id) ?? manager().get_model !== undefined,
    get_model: (id) => manager().get_model?.(id),
    create_view: (model) => manager().create_view?.(model) ?? Promise.resolve({}),
  };
}

/** What an output of a run has in its metadata: `RESULT_MARK` in Python. */
const RESULT_MARK = "agent_kernel";
/** ipywidgets leaves it with a text of its own ("model not found") and nothing else. */
const NOT_SHOWN = ".jp-OutputArea-output.jupyter-widgets";

type Output = ReturnType<CodeCell["outputArea"]["model"]["get"]>;

/** Watches all notebooks in the page. */
export function tellsOfGoneWidgets(tracker: INotebookTracker): void {
  tracker.widgetAdded.connect((_, panel) => {
    watchDrawn(panel, (cells) => {
      for (const node of [...cells].flatMap((cell) => [...cell.querySelectorAll<HTMLElement>(NOT_SHOWN)])) {
        const output = node.firstElementChild === null ? outputOf(panel, node) : undefined;
        if (output !== undefined && RESULT_MARK in output.metadata) void showText(panel, node, output);
      }
    });
  });
}

function outputOf({ content }: NotebookPanel, node: HTMLElement): Output | undefined {
  const cell = content.widgets.find((one) => one.node.contains(node));
  if (cell === undefined || !isCode(cell)) return undefined;
  const { widgets, model } = cell.outputArea;
  return model.get(widgets.findIndex((one) => one.node.contains(node)));
}

async function showText({ content }: NotebookPanel, node: HTMLElement, output: Output): Promise<void> {
  const text = content.rendermime.createRenderer("text/plain");
  await text.renderModel(output);
  const note = document.createElement("p");
  note.textContent = GONE;
  node.replaceChildren(text.node, note);
}
