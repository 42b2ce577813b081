/** Tells those who want it what begins to wait out of sight, in JupyterLab and on the desktop. */
import type { JupyterFrontEnd } from "@jupyterlab/application";
import { Notification } from "@jupyterlab/apputils";
import type { INotebookTracker } from "@jupyterlab/notebook";
import type { GoToRun } from "./goToRun";
import type { Waiting } from "./listedRuns";
import { isIn } from "./documents";
import type { OpenRuns } from "./openRuns";
import type { Settings } from "./settings";

export function notifiesOfWaits(
  { shell }: JupyterFrontEnd,
  tracker: INotebookTracker,
  settings: Settings,
  runs: OpenRuns,
  goTo: GoToRun,
): void {
  let known: ReadonlySet<string> = new Set();
  const isInSight = ({ run }: Waiting): boolean =>
    !document.hidden && tracker.find((panel) => panel === shell.currentWidget && isIn(panel, run)) !== undefined;
  runs.listed.connect(() => {
    const news = runs.waiting.filter((one) => !known.has(one.run.run_id) && !isInSight(one));
    known = new Set(runs.waiting.map(({ run }) => run.run_id));
    for (const one of news) {
      const show = (): void => void goTo(one.run, true);
      if (settings.notifies)
        Notification.info(words(one), { autoClose: false, actions: [{ label: "Show", callback: show }] });
      if (settings.notifiesOnDesktop) notifyDesktop(one, show);
    }
  });
  settings.changed.connect(() => {
    // The press that has changed the setting allows the page to ask.
    if (settings.notifiesOnDesktop && desktop()?.permission === "default") void desktop()?.requestPermission();
  });
}

function words({ words, run }: Waiting): string {
  return run.notebook === null ? words : `${words}, in ${run.notebook}`;
}

/** Pages over plain HTTP have none. */
function desktop(): typeof window.Notification | null {
  return "Notification" in window ? window.Notification : null;
}

function notifyDesktop(one: Waiting, show: () => void): void {
  const Desktop = desktop();
  if (Desktop?.permission !== "granted") return;
  // One for each run, in however many pages.
  const shown = new Desktop("Agent Kernel", { body: words(one), tag: one.run.run_id });
  shown.onclick = () => {
    window.focus();
    show();
    shown.close();
  };
}
