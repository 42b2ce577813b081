/** The JupyterLab extension: what a cell's output cannot do by itself. It works in JupyterLab and in Notebook 7. */
import { ILayoutRestorer, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { ILauncher } from "@jupyterlab/launcher";
import { INotebookCellExecutor, INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import { IRenderMimeRegistry } from "@jupyterlab/rendermime";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { IStatusBar } from "@jupyterlab/statusbar";
import { keepsKeysInRecords, RECORD } from "../../src/ui/notebook";
import { answersCards, insertBelow } from "./answers";
import { offersTheRest } from "./afterRun";
import { EXPLAIN, FIX, addLauncher, addQuestions, coloursPrompts } from "./ask";
import { remembersRuns, showsLostRuns, reportsRemoved } from "./documents";
import { watchErrors } from "./errors";
import { rendersRuns, tellsOfGoneWidgets } from "./runOutput";
import { type GoToRun, waysToRuns } from "./goToRun";
import { loadsWhereAsked } from "./loading";
import { notifiesOfWaits, StatusItem, marksWhatWaits } from "./waitingMarks";
import { OpenRuns } from "./openRuns";
import { OpenNotebooks, runsBegan } from "./pages";
import { codeOf, decorateRecords } from "./records";
import { RunsPanel } from "./runsPanel";
import { Settings } from "./settings";
import style from "./style.css";
import { UndoOffers } from "./undo";

const CATEGORY = "Agent Kernel";

const notebooks: JupyterFrontEndPlugin<void> = {
  id: "agent-kernel:notebooks",
  description:
    "Draws runs in outputs, loads the agent before cells that ask it, lets it read, change and run cells as the server " +
    "asks, and gives cards and records what takes a notebook: cells of their code, undo, prompts that run again.",
  autoStart: true,
  requires: [INotebookTracker, IRenderMimeRegistry],
  optional: [ICommandPalette, ISettingRegistry, INotebookCellExecutor],
  activate: (
    app,
    tracker: INotebookTracker,
    rendermime: IRenderMimeRegistry,
    palette: ICommandPalette | null,
    registry: ISettingRegistry | null,
    executor: INotebookCellExecutor | null,
  ) => {
    const { commands } = app;
    const { serverSettings } = app.serviceManager;
    keepsKeysInRecords();
    rendersRuns(app, tracker, rendermime);
    answersCards(tracker);
    coloursPrompts(tracker);
    loadsWhereAsked(tracker, new Settings(registry));
    reportsRemoved(tracker);
    remembersRuns(tracker);
    tellsOfGoneWidgets(tracker);
    new OpenNotebooks(tracker, serverSettings, executor);
    const offers = new UndoOffers(serverSettings);
    tracker.widgetAdded.connect((_, panel) => {
      decorateRecords(panel.content.node);
      offers.watch(panel);
    });
    const command = "agent-kernel:insert-run";
    const recorded = (): string[] => {
      const parts = tracker.activeCell?.node.querySelectorAll(RECORD) ?? [];
      return [...parts].map(codeOf).find((code) => code.length > 0) ?? [];
    };
    commands.addCommand(command, {
      label: "Insert the Code of This Cell’s Run as Cells",
      isEnabled: () => recorded().length > 0,
      execute: () => {
        const notebook = tracker.currentWidget?.content;
        if (notebook) insertBelow(notebook, notebook.activeCellIndex, recorded());
      },
    });
    palette?.addItem({ command, category: CATEGORY });
  },
};

/** Its schema has the places of its commands in toolbar, menu and keyboard, and the settings. */
const prompts: JupyterFrontEndPlugin<void> = {
  id: "agent-kernel:prompts",
  description:
    "Makes cells and notebooks that ask the agent, from errors, toolbar, menu, palette, launcher and a shortcut.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ILauncher],
  activate: (app, tracker: INotebookTracker, palette: ICommandPalette | null, launcher: ILauncher | null) => {
    addQuestions(app, tracker, palette, CATEGORY);
    addLauncher(app, launcher, palette, CATEGORY);
    tracker.widgetAdded.connect((_, panel) =>
      watchErrors(panel, (question, cellId) => {
        app.shell.activateById(panel.id);
        void app.commands.execute(question === "fix" ? FIX : EXPLAIN, { cellId });
      }),
    );
  },
};

const waits: JupyterFrontEndPlugin<void> = {
  id: "agent-kernel:waits",
  description:
    "Shows what waits for you where its cards can't be seen, and all runs in a panel; offers to run cells after a run.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, IStatusBar, ISettingRegistry, ILayoutRestorer],
  activate: (
    app,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    statusBar: IStatusBar | null,
    registry: ISettingRegistry | null,
    restorer: ILayoutRestorer | null,
  ) => {
    const settings = new Settings(registry);
    const runs = new OpenRuns(tracker, app.serviceManager.serverSettings, settings);
    const goTo = waysToRuns(app, tracker);
    runsBegan.connect(() => runs.expect());
    offersTheRest(tracker, runs);
    showsLostRuns(tracker, runs, NotebookActions.executionScheduled);
    marksWhatWaits(tracker, runs, goTo);
    const panel = new RunsPanel(runs, goTo);
    app.shell.add(panel, "right", { rank: 900 });
    restorer?.add(panel, panel.id);
    const showPanel = (): void => {
      app.shell.activateById(panel.id);
      void panel.showWaiting();
    };
    // The panel has the cards of a cell that is not drawn, too.
    const show: GoToRun = async (run, isWaiting) => {
      const isDrawn = await goTo(run, isWaiting);
      if (!isDrawn) showPanel();
      return isDrawn;
    };
    notifiesOfWaits(app, tracker, settings, runs, show);
    const item = new StatusItem(app, tracker, runs, show, showPanel);
    // The status bar shows all its items when it is drawn again, but for those that say no.
    const place = { item, align: "left", rank: 100, isActive: () => item.any } as const;
    if (statusBar !== null) statusBar.registerStatusItem(item.id, place);
    else app.shell.add(item, "top", { rank: 10_000 });
    const next = "agent-kernel:show-waiting";
    app.commands.addCommand(next, {
      label: "Show What Waits for You",
      isEnabled: () => item.any,
      execute: () => item.showNext(),
    });
    const list = "agent-kernel:show-runs";
    app.commands.addCommand(list, {
      label: "Show What Waits and What Ran",
      execute: () => app.shell.activateById(panel.id),
    });
    for (const command of [next, list]) palette?.addItem({ command, category: CATEGORY });
  },
};

function addStyle(): void {
  const sheet = document.createElement("style");
  sheet.textContent = style;
  document.head.append(sheet);
}

addStyle();

export default [notebooks, prompts, waits];
