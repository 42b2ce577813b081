/** What a widget sends to a page of a server that has the extension: it loads the front end, which is some two hundred
 * kilobytes, from that server, once for the page and cached by the browser.
 *
 * Each prompt sends all of this to its page, so it is written to be small when it is built. */
import { fromServer, type Place, widgetManagers } from "./served";

const TROUBLE =
  "<p role=alert>No cards came from the server. The run goes on. Try again, reload the page, or stop the Jupyter " +
  "server and start it again, which ends its kernels.</p><button class='jp-Button jp-mod-styled'>Try again</button>";

function initialize({ model }: Pick<Place, "model">): void {
  if (model.widget_manager) widgetManagers.set(model.get("run_id"), model.widget_manager);
}

function render({ model, el }: Place): () => void {
  let gone = false;
  let close = (): void => undefined;
  const show = async (again?: string): Promise<void> => {
    el.innerHTML = "";
    try {
      const frontEnd = await fromServer(again);
      if (!gone) close = frontEnd.default.render({ model, el });
    } catch (error) {
      console.error(error);
      if (gone) return;
      el.innerHTML = TROUBLE;
      (el.lastChild as HTMLElement).onclick = () => show(`?${Date.now()}`);
    }
  };
  void show();
  return () => {
    gone = true;
    close();
  };
}

export default { initialize, render };
