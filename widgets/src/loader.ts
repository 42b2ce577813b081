/** What a widget sends to a page of a server that has the extension: it loads the front end, which is some two hundred
 * kilobytes, from that server, once for the page and cached by the browser. Where that fails it asks the kernel.
 *
 * Each prompt sends all of this to its page, so it is written to be small when it is built. */
import { type FrontEnd, fromServer, keep, type Place, widgetManagers } from "./served";

const TROUBLE =
  "<p role=alert>No cards came from the server, nor from the kernel, which may be busy. The run goes on. " +
  "Try again, reload the page, or stop the Jupyter server and start it again, which ends its kernels.</p><button class='jp-Button jp-mod-styled'>Try again</button>";

function initialize({ model }: Pick<Place, "model">): void {
  if (model.widget_manager) widgetManagers.set(model.get("run_id"), model.widget_manager);
}

function render({ model, el }: Place): () => void {
  let gone = false;
  let late: ReturnType<typeof setTimeout>;
  let receive = (_message: unknown): void => undefined;
  let close = (): void => undefined;
  const stop = (): void => {
    clearTimeout(late);
    model.off("msg:custom", receive);
    close();
  };
  /** The kernel has all of it in one, also in a version that the server does not have. */
  const fromKernel = (): Promise<FrontEnd> =>
    new Promise((resolve) => {
      receive = (message) => {
        const source = (message as { front_end?: string } | null)?.front_end;
        if (source) resolve(keep(import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })))));
      };
      model.on("msg:custom", receive);
      model.send({ wants: "front_end" });
    });
  const show = async (again?: string): Promise<void> => {
    stop();
    el.innerHTML = "";
    const tell = (error?: unknown): void => {
      if (gone) return;
      console.error(error);
      el.innerHTML = TROUBLE;
      (el.lastChild as HTMLElement).onclick = () => show(`?${Date.now()}`);
    };
    // A server or a kernel that has not answered by then may still do so.
    late = setTimeout(tell, 5_000);
    try {
      const frontEnd = await fromServer(again).catch(() => (gone ? ({} as FrontEnd) : fromKernel()));
      if (gone) return;
      stop();
      el.innerHTML = "";
      close = frontEnd.default.render({ model, el });
    } catch (error) {
      tell(error);
    }
  };
  void show();
  return () => {
    gone = true;
    stop();
  };
}

export default { initialize, render };
