/** What every view of a run needs, so that it does not travel through each of them. */
import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useState } from "preact/hooks";
import { Drawings } from "../card/drawings";
import type { Receives } from "../channel/transport";
import type { BudgetLimits, ClientCommand, PauseView } from "../protocol";
import type { Call } from "../state";
import type { Typeset } from "../ui/typesetting";

export type Panel = "none" | "reason" | "edit" | "allow";

/** Whether a call that failed, or whose outcome is unknown, can be asked for again. */
export type Retry = "no" | "offered" | "sent" | "asked";

/** Whether what a call wrote can be put back. */
export type Undo = "no" | "offered" | "asked" | "done";

/** Whether the answer to a pause is on its way. */
export type BudgetReply = "no" | "queued" | "sent";

/** Whom a run waits for: a click that the kernel has not heard yet leaves nothing to do for the person. */
export type Waiting = "nobody" | "you" | "kernel";

/** What keys can do in a part of a card that knows for itself what would be sent. */
export interface Form {
  send(): void;
  choose?(number: number): void;
}

export interface Actions {
  /** The runtime's present moment in ms, by this page's best knowledge. */
  now(): number;
  decide(call: Call, choice: Choice): void;
  takeBack(approvalId: string): void;
  send(command: ClientCommand): void;
  /** The answer that is being written, as far as it has come. */
  written(): string;
  /** What the model thinks, as far as it has come. */
  thought(): string;
  /** Have `render` called when one of these two has grown. */
  watchText(render: () => void): () => void;
  retry(call: Call): void;
  proceed(call: Call): void;
  undo(call: Call): void;
  openPanel(call: Call, panel: Panel): void;
  raiseBudget(pause: PauseView, add: BudgetLimits, withoutUsd?: boolean): void;
  takeBackRaise(): void;
  /** Sends the answer to a question, or that there is none. */
  answer(call: Call, command: ClientCommand): void;
  /** Have keys on the card of a call or a pause act on its form. Returns what ends that. */
  addForm(id: string, form: Form): () => void;
}

export type Choice =
  | { readonly kind: "approve" }
  | { readonly kind: "deny"; readonly reason: string }
  | { readonly kind: "edit"; readonly input: Record<string, unknown> | string }
  | { readonly kind: "always"; readonly scope: "conversation" | "project" | "user"; readonly rule: string };

export const ActionsContext = createContext<Actions | null>(null);

/** Of its own, because it changes: without a server, with whether a cell waits for the run. */
export const ReceivesContext = createContext<Receives>("always");

/** What the notebook's own renderers draw in this view; nothing, where it has none. */
export const DrawingsContext = createContext(new Drawings(undefined));

/** Formulas in answers; shown as they are written, where the page can't typeset them. */
export const TypesetContext = createContext<Typeset>(() => undefined);

export function useActions(): Actions {
  const actions = useContext(ActionsContext);
  if (actions === null) throw new Error("a view outside of a run");
  return actions;
}

/** Have keys on the card of a call or a pause do what the form's own buttons do. */
export function useForm(id: string, form: Form): void {
  const actions = useActions();
  useLayoutEffect(() => actions.addForm(id, form));
}

/** Renders when the text that is being written grows, and lets nothing else render for it. */
export function useGrowingText(active: boolean): Actions {
  const actions = useActions();
  const [, render] = useState(0);
  useLayoutEffect(() => (active ? actions.watchText(() => render((n) => n + 1)) : undefined), [actions, active]);
  return actions;
}

/** Renders once a second while something on screen counts them. */
export function useSeconds(active: boolean): void {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(() => tick((n) => n + 1), 1_000);
    return () => clearInterval(timer);
  }, [active]);
}
