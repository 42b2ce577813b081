/** The front end as a file of the page's server, else from a widget's kernel. A page imports it once, whoever asks first. */

import type { WidgetManager } from "./card/notebookRenderers";

/** The name of the front end's first file, by its content. Put in by the build. */
declare const FIRST_PART: string;

interface Model {
  readonly widget_manager?: WidgetManager | undefined;
  get(trait: "run_id"): string;
  on(event: "msg:custom", callback: (message: unknown) => void): void;
  send(content: unknown): void;
}

export interface Place {
  readonly model: Model;
  readonly el: HTMLElement;
}

export interface FrontEnd {
  readonly default: { render(place: Place): () => void };
}

const file = FIRST_PART;
/** By the name of the first file: each widget has its own copy of this module, and pages may have several versions. */
const loaded = shared<Promise<FrontEnd>>("front_ends");
/** By run, the manager of its widget: what draws a run without its widget draws other widgets with that. */
export const widgetManagers = shared<WidgetManager>("widget_managers");

function shared<T>(name: string): Map<string, T> {
  return ((globalThis as unknown as Record<symbol, Map<string, T>>)[Symbol.for(`agent_kernel.${name}`)] ??= new Map());
}

/** Where the server has a file. Throws in pages that are of no Jupyter server. */
export function addressOf(name: string): string {
  const { baseUrl } = JSON.parse(document.getElementById("jupyter-config-data")!.textContent!) as { baseUrl: string };
  return new URL(baseUrl.replace(/\/*$/, "/agent-kernel/static/") + name, location.href).href;
}

/** `again` makes the address a new one: browsers remember that a module could not be loaded. The cards of other runs in
 * this page are made of what comes, too. */
export function fromServer(again = ""): Promise<FrontEnd> {
  const known = loaded.get(file);
  if (known !== undefined && again === "") return known;
  const coming = (async () => (await import(addressOf(file) + again)) as FrontEnd)();
  loaded.set(file, coming);
  return coming;
}

/** The kernel has all of it in one, also where the server has another version, or the page is of no Jupyter server. */
export function fromKernel(model: Model): Promise<FrontEnd> {
  return new Promise((resolve) => {
    model.on("msg:custom", (message) => {
      const source = (message as { front_end?: string } | null)?.front_end;
      if (!source) return;
      const coming: Promise<FrontEnd> = import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
      loaded.set(file, coming);
      resolve(coming);
    });
    model.send({ wants: "front_end" });
  });
}
