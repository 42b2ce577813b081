/** The cards of a run in any element of the page, from the server, as its widget shows them. */
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { WidgetManager } from "../../src/card/notebookRenderers";
import { fromServer, widgetManagers } from "../../src/served";
import type { ListedRun } from "./listedRuns";

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
