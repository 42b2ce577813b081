/** The context of a card: the parts of the run that its components use. */
import type { ReadonlySignal, Signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { PendingDecision } from "../channel/decisions";
import type { Receives } from "../channel/transport";
import type { ClientCommand, Scope } from "../protocol";
import type { Call } from "../state/model";
import type { Typeset } from "../ui/typesetting";
import { Drawings } from "./drawings";
import type { Fold } from "./folding";

export type Panel = "none" | "reason" | "edit" | "run" | "allow";

/** Whether a call that failed, or whose outcome is unknown, can be asked for again. */
export type Retry = "no" | "offered" | "sent" | "asked";

/** Whether what a call wrote can be put back; `redo`: it was, and that can be undone; `done`: it was. */
export type Undo = "no" | "offered" | "asked" | "redo" | "done";

export type Choice =
  | { readonly kind: "approve" }
  | { readonly kind: "deny"; readonly reason: string }
  | { readonly kind: "edit"; readonly input: Record<string, unknown> | string }
  | { readonly kind: "always"; readonly scope: Exclude<Scope, "once">; readonly rule: string };

/** One call on one view. A component of its card renders when a signal that it reads has changed. */
export interface CallSignals {
  readonly id: string;
  readonly call: ReadonlySignal<Call>;
  /** A decision of this page that the runtime has not confirmed yet. */
  readonly pending: ReadonlySignal<PendingDecision | null>;
  /** The person is asked something, and can answer. */
  readonly yours: ReadonlySignal<boolean>;
  /** One of several that wait has the full frame, the filled button and the key hints. */
  readonly current: ReadonlySignal<boolean>;
  readonly retry: ReadonlySignal<Retry>;
  readonly undo: ReadonlySignal<Undo>;
  readonly fold: ReadonlySignal<Fold>;
  /** The card is no more than its head. */
  readonly line: ReadonlySignal<boolean>;
  /** Whether the person has opened or closed the card. */
  readonly opened: Signal<boolean | null>;
  /** Known to the run: one answer to all calls leaves out a call that is being edited. */
  readonly panel: Signal<Panel>;
}

export interface RunSignals {
  readonly receives: Receives;
  /** Decisions are off: the connection has been away for too long. */
  readonly off: ReadonlySignal<boolean>;
  /** The kernel that the calls would run in is no more. */
  readonly gone: ReadonlySignal<boolean>;
  /** For a moment after a decision, so that a second click does not hit the next card. */
  readonly guarded: ReadonlySignal<boolean>;
  /** More than one call waits. */
  readonly several: ReadonlySignal<boolean>;
  readonly recorded: ReadonlySignal<boolean>;
  readonly isDemo: ReadonlySignal<boolean>;
  /** The last of several calls whose changes can be put back: it offers to do so with all. */
  readonly undoesAll: ReadonlySignal<string | null>;
  /** The policy of the run: a call that is asked for again waits for the person. */
  readonly asksFirst: ReadonlySignal<boolean>;
}

/** The run of a card: what it shows of it, and what it asks of it. */
export interface CardRun {
  readonly store: RunSignals;
  /** The runtime's present moment in ms, by this page's best knowledge. */
  now(): number;
  decide(card: CallSignals, choice: Choice): void;
  takeBack(approvalId: string): void;
  send(command: ClientCommand): void;
  retry(card: CallSignals, outside?: boolean): void;
  proceed(card: CallSignals): void;
  /** Puts back what a call changed, or undoes that. */
  undo(card: CallSignals): void;
  /** Puts back what all calls changed that can be. */
  undoAll(): void;
  openPanel(card: CallSignals, panel: Panel): void;
  /** Sends the answer to a question, or that there is none. */
  answer(card: CallSignals, command: ClientCommand): void;
  /** Puts the focus on the card so many places further. */
  move(from: string, by: 1 | -1): void;
  /** Something that asks the person has come into the page. */
  cameToAsk(): void;
}

export const RunContext = createContext<CardRun | null>(null);

/** The outputs that the notebook's own renderers draw in this view; none where it has no renderers. */
export const DrawingsContext = createContext(new Drawings(undefined));

/** Formulas in answers; shown as they are written, where the page can't typeset them. */
export const TypesetContext = createContext<Typeset>(() => undefined);

export function useRun(): CardRun {
  const run = useContext(RunContext);
  if (run === null) throw new Error("a view outside of a run");
  return run;
}
