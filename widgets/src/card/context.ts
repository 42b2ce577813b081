/** What the components of a card have around them: their run, and what draws outputs and formulas. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { RunController } from "../store/controller";
import type { Typeset } from "../ui/typesetting";
import { Drawings } from "./drawings";

export const RunContext = createContext<RunController | null>(null);

/** The outputs that the notebook's own renderers draw in this view; none where it has no renderers. */
export const DrawingsContext = createContext(new Drawings(undefined));

/** Formulas in answers; shown as they are written, where the page can't typeset them. */
export const TypesetContext = createContext<Typeset>(() => undefined);

export function useRun(): RunController {
  const run = useContext(RunContext);
  if (run === null) throw new Error("a view outside of a run");
  return run;
}
