/** The state of a run that a view shows: immutable, made by `reduce` and `fromSnapshot` only. */
import type { BudgetRaise, DelayView, ErrorCode, PauseView, RunView, ToolCallView } from "../protocol";
import type { Decider } from "../text/words";
import { NO_OUTPUTS, type Outputs } from "./outputs";

export interface Problem {
  readonly code: ErrorCode;
  readonly message: string;
}

/** What a call's card does not show, or shows in another form. */
type NotShown = "by" | "decided_by" | "conversation_id" | "run_id" | "created_at" | "read_only" | "place";

/** A call as the runtime shows it, and what only this page knows of it. */
export interface Call extends Readonly<Omit<ToolCallView, "tool_input" | "outputs" | NotShown>> {
  /** The arguments as JSON text; `null` while the model writes them. */
  readonly tool_input: string | null;
  readonly decider: Decider | null;
  readonly outputs: Outputs;
  /** How often the change was undone or made again, as far as this page has followed it. */
  readonly turned: number;
  /** The step of the run that asked for this call, counted from 0. */
  readonly step: number;
  /** The server's answer to a decision that it did not take. */
  readonly problem: Problem | null;
}

export type Item =
  | { readonly kind: "answer"; readonly id: string }
  | { readonly kind: "call"; readonly id: string }
  | { readonly kind: "raise"; readonly id: string; readonly raise: BudgetRaise; readonly by: Decider }
  | { readonly kind: "note"; readonly id: string; readonly text: string; readonly detail: string }
  | { readonly kind: "notice"; readonly id: string; readonly problem: Problem };

export interface RunState {
  readonly runId: string;
  readonly run: RunView | null;
  /** Answers, calls and notices in the model's order. */
  readonly items: readonly Item[];
  /** Finished messages. The one being written is in `tail`, apart, so that a token costs the same at any length. */
  readonly texts: Readonly<Record<string, string>>;
  readonly tail: { readonly id: string; readonly text: string } | null;
  /** The model's reasoning before its answer; `null` once that begins. It is not part of the record. */
  readonly thinking: string | null;
  readonly calls: Readonly<Record<string, Call>>;
  readonly step: number;
  /** A call of this step has ended: what the model says next begins a new step. */
  readonly stepEnding: boolean;
}

export function emptyRun(runId: string): RunState {
  return { runId, run: null, items: [], texts: {}, tail: null, thinking: null, calls: {}, step: 0, stepEnding: false };
}

/** A call that the model begins to write. */
export function emptyCall(id: string, name: string, step: number): Call {
  return {
    tool_call_id: id,
    tool_name: name,
    tool_input: null,
    approval_id: "",
    digest: "",
    state: "proposed",
    decider: null,
    decided_at: null,
    reason: null,
    edited: false,
    recorded: false,
    warnings: [],
    preview: null,
    scopes: [],
    rules: [],
    started_at: null,
    ended_at: null,
    duration_ms: null,
    result: null,
    truncated: false,
    output_file: null,
    cached_at: null,
    outputs: NO_OUTPUTS,
    waiting_behind: null,
    undo: null,
    undone: false,
    turned: 0,
    unknown_answer: null,
    seen_images: 0,
    step,
    problem: null,
  };
}

export function runEnded(state: RunState): boolean {
  const status = state.run?.status;
  return status === "complete" || status === "cancelled" || status === "error";
}

/** The calls that wait for a decision, in the model's order. */
export function waitingCalls(state: RunState): Call[] {
  return callsInOrder(state).filter((call) => call.state === "awaiting_approval");
}

export function callsInOrder(state: RunState): Call[] {
  return state.items.flatMap((item) => (item.kind === "call" ? (callOf(state, item.id) ?? []) : []));
}

/** A call by the model's id, which may be any text: `constructor` is not what every object has by that name. */
export function callOf(state: RunState, id: string): Call | undefined {
  return Object.hasOwn(state.calls, id) ? state.calls[id] : undefined;
}

/** The pause that waits for the person, if there is one. */
export function pauseOf(state: RunState): PauseView | null {
  return runEnded(state) ? null : (state.run?.paused ?? null);
}

/** Why the model's service is asked again, while it is. */
export function delayOf(state: RunState): DelayView | null {
  return runEnded(state) ? null : (state.run?.delay ?? null);
}

/** Nobody can say what became of a call, and the run waits for the person to look. */
export function asksWhatNow(call: Call, state: RunState): boolean {
  return (
    call.state === "unknown" &&
    call.unknown_answer === null &&
    call.step === state.step &&
    state.run?.status === "running"
  );
}

/** True where the person is asked something. */
export function needsYou(call: Call): boolean {
  return call.state === "awaiting_approval" || (call.state === "executing" && call.tool_name === "ask_user");
}
