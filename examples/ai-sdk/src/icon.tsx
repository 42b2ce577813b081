/** The icons of the states: a shape for each, so that none is told by its colour alone. */

import type { State } from "./messages";

const RING = "M8 1.75a6.25 6.25 0 1 0 0 12.5a6.25 6.25 0 1 0 0-12.5";
const PATHS: Record<State | "warning", string> = {
  preparing: RING,
  waiting: `${RING}M6.5 6v4M9.5 6v4`,
  approved: `${RING}M8 4.75V8l2.25 1.5`,
  running: "M8 1.75A6.25 6.25 0 0 1 14.25 8",
  done: `${RING}M5.25 8.25l2 2 3.5-4`,
  failed: `${RING}M6 6l4 4M10 6l-4 4`,
  ended: `${RING}M6 6h4v4H6z`,
  denied: `${RING}M3.75 3.75l8.5 8.5`,
  unknown: `${RING}M6.25 6.25a1.75 1.75 0 1 1 2.5 1.6c-.5.25-.75.5-.75 1.15M8 11.25v.01`,
  warning: "M8 2 14.5 13.5h-13zM8 6.5v3.25M8 11.5v.01",
};

export function Icon({ state }: { state: State | "warning" }) {
  return (
    <svg className="icon" data-icon={state} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[state]} />
    </svg>
  );
}
