/** What the components of a card have around them: their run, and the notebook's renderers. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { RunController } from "../store/controller";
import type { WidgetManager } from "./notebookRenderers";

export const RunContext = createContext<RunController | null>(null);

/** What the notebook draws outputs and formulas with; `undefined` where it has no renderers. */
export const NotebookContext = createContext<WidgetManager | undefined>(undefined);

export function useRun(): RunController {
  const run = useContext(RunContext);
  if (run === null) throw new Error("a view outside of a run");
  return run;
}
