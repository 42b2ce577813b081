/** What a widget sends to a page of a server that has the extension: it loads the front end, which is some two hundred
 * kilobytes, from that server, once for the page and cached by the browser. Where that fails it asks the kernel. */

/** The name of the front end's first file, by its content. Put in by the build. */
declare const FIRST_PART: string;

interface Model {
  on(event: "msg:custom", callback: (message: unknown) => void): void;
  off(event: "msg:custom", callback: (message: unknown) => void): void;
  send(content: unknown): void;
}

interface Place {
  readonly model: Model;
  readonly el: HTMLElement;
}

interface FrontEnd {
  connectAhead(conversationId: string): void;
  readonly default: { render(place: Place): () => void };
}

/** A server or a kernel that has not answered within this long may still do so; the person is told what to do. */
const PATIENCE_MS = 5_000;
/** By the name of the first file: each widget has its own copy of this module, and pages may have several versions. */
const LOADED = Symbol.for("agent_kernel.front_ends");
const TROUBLE =
  "The cards of this run could not be loaded, neither from the Jupyter server nor from the kernel, which may be busy. " +
  "The run goes on without them, and waits where it has to ask you. Try again, or reload the page. If that does not " +
  "help, restart the Jupyter server: it may have another version of Agent Kernel than the kernel.";

const page = globalThis as { [LOADED]?: Map<string, Promise<FrontEnd>> };
const loaded = (page[LOADED] ??= new Map());

/** Where the server has the file; `null` in pages that are of no Jupyter server. */
export function addressOf(file: string, document: Document): string | null {
  const text = document.getElementById("jupyter-config-data")?.textContent;
  if (!text) return null;
  const { baseUrl } = JSON.parse(text) as { baseUrl?: unknown };
  if (typeof baseUrl !== "string") return null;
  return new URL(`${baseUrl.replace(/\/*$/, "/")}agent-kernel/static/${file}`, document.location.href).href;
}

/** In JupyterLab where a notebook with a prompt is opened: its first cards need not wait for what they are made of. Nor
 * for what these conversations, whose runs go on, have so far. */
export function loadAhead(conversationIds: readonly string[] = []): void {
  fromServer("")
    .then((frontEnd) => conversationIds.forEach((id) => frontEnd.connectAhead(id)))
    .catch(() => loaded.delete(FIRST_PART)); // the widget tries again, and says what to do
}

/** `again` makes the address a new one: browsers remember that a module could not be loaded. */
function fromServer(again: string): Promise<FrontEnd> {
  const known = loaded.get(FIRST_PART);
  if (known !== undefined && again === "") return known;
  const coming = load(again);
  loaded.set(FIRST_PART, coming);
  return coming;
}

async function load(again: string): Promise<FrontEnd> {
  const address = addressOf(FIRST_PART, document);
  if (address === null) throw new Error("This page is of no Jupyter server.");
  return (await import(address + again)) as FrontEnd;
}

/** The kernel has all of it in one, also in a version that the server does not have. */
function fromKernel(model: Model, gone: AbortSignal): Promise<FrontEnd> {
  return new Promise((resolve, reject) => {
    const receive = (message: unknown): void => {
      const source = (message as { front_end?: unknown } | null)?.front_end;
      if (typeof source !== "string") return;
      model.off("msg:custom", receive);
      const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
      const coming = import(address) as Promise<FrontEnd>;
      loaded.set(FIRST_PART, coming);
      coming.finally(() => URL.revokeObjectURL(address)).then(resolve, reject);
    };
    model.on("msg:custom", receive);
    gone.addEventListener("abort", () => model.off("msg:custom", receive));
    model.send({ wants: "front_end" });
  });
}

function render({ model, el }: Place): () => void {
  const gone = new AbortController();
  let leave = (): void => undefined;
  const show = (again: string): void => {
    const late = setTimeout(() => tell(el, () => show(`?${Date.now()}`)), PATIENCE_MS);
    gone.signal.addEventListener("abort", () => clearTimeout(late));
    fromServer(again)
      .catch(() => fromKernel(model, gone.signal))
      .then((frontEnd) => {
        clearTimeout(late);
        if (gone.signal.aborted) return;
        leave();
        el.replaceChildren();
        leave = frontEnd.default.render({ model, el });
      })
      .catch((error: unknown) => {
        clearTimeout(late);
        console.error("Agent Kernel: the front end was not loaded.", error);
        if (!gone.signal.aborted) tell(el, () => show(`?${Date.now()}`));
      });
  };
  show("");
  return () => {
    gone.abort();
    leave();
  };
}

function tell(el: HTMLElement, again: () => void): void {
  const text = Object.assign(document.createElement("p"), { textContent: TROUBLE });
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Try again" });
  button.className = "jp-Button jp-mod-styled";
  button.addEventListener("click", () => {
    el.replaceChildren();
    again();
  });
  text.setAttribute("role", "alert");
  el.replaceChildren(text, button);
}

export default { render };
