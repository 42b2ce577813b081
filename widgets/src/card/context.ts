/** What the components of a card have around them: their run, and what draws outputs and formulas. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { RunController } from "../store/controller";
import { Drawings } from "./drawings";

export const RunContext = createContext<RunController | null>(null);

/** The outputs and formulas that the notebook's own renderers draw in this view; none where it has no renderers. */
export const DrawingsContext = createContext(new Drawings(undefined));

export function useRun(): RunController {
  const run = useContext(RunContext);
  if (run === null) throw new Error("a view outside of a run");
  return run;
}
