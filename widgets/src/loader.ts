/** What a widget sends to a page of a server that has the extension: it loads the front end, which is some two hundred
 * kilobytes, from that server, once for the page and cached by the browser. Where that fails it asks the kernel.
 *
 * Each prompt sends all of this to its page, so it is written to be small when it is built. */
import { fromKernel, fromServer, type Place, widgetManagers } from "./served";

const TROUBLE =
  "<p role=alert>No cards came from the server, nor from the kernel, which may be busy. The run goes on. Try again, " +
  "reload the page, or stop the Jupyter server and start it again, which ends its kernels.</p>" +
  "<button class='jp-Button jp-mod-styled'>Try again</button>";
/** A server or a kernel that has not answered by then may still do so. */
const LATE_MS = 5_000;

function initialize({ model }: Pick<Place, "model">): void {
  if (model.widget_manager) widgetManagers.set(model.get("run_id"), model.widget_manager);
}

function render({ model, el }: Place): () => void {
  let gone = false;
  let close = (): void => undefined;
  let late: ReturnType<typeof setTimeout> | undefined;
  const tell = (): void => {
    el.innerHTML = TROUBLE;
    (el.lastChild as HTMLElement).onclick = () => void show(`?${Date.now()}`);
  };
  const show = async (again?: string): Promise<void> => {
    el.innerHTML = "";
    late = setTimeout(tell, LATE_MS);
    const frontEnd = await fromServer(again).catch(() => fromKernel(model));
    if (gone) return;
    close();
    el.innerHTML = "";
    close = frontEnd.default.render({ model, el });
    clearTimeout(late);
  };
  void show();
  return () => {
    gone = true;
    clearTimeout(late);
    close();
  };
}

export default { initialize, render };
