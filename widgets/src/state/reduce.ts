/** Events, or the snapshot of a `session` event, to view state. Pure: the same events give the same state, whether they come
 * live or again after a reload. */
import type { BudgetRaise, ConversationView, NoticeView, RunView, ServerEvent, ToolCallView } from "../protocol";
import { ANOTHER_TAB, type Decider } from "../text/words";
import { type Call, type Item, type RunState, callOf, emptyCall, emptyRun } from "./model";
import { NO_OUTPUTS, addOutput } from "./outputs";

export interface Context {
  /** False while the events of the past are read again. */
  readonly live: boolean;
  /** Approvals and pauses that this page answered. */
  readonly own: ReadonlySet<string>;
}

const ENDS_THINKING = new Set<ServerEvent["type"]>([
  "token",
  "message",
  "tool_state",
  "approval_request",
  "error",
  "complete",
]);

export function reduce(before: RunState, event: ServerEvent, context: Context): RunState {
  const state = before.thinking !== null && ENDS_THINKING.has(event.type) ? { ...before, thinking: null } : before;
  switch (event.type) {
    case "token":
      return addToken(state, event.message_id, event.content);
    case "reasoning":
      return { ...nextStep(state), thinking: (state.thinking ?? "") + event.content };
    case "message":
      if (event.role !== "assistant") return state;
      return event.content === ""
        ? takeBack(state, event.message_id)
        : setMessage(state, event.message_id, event.content);
    case "run":
      return { ...withNews(state, event.run, context), run: event.run };
    case "usage":
      return state.run === null ? state : { ...state, run: { ...state.run, usage: event.usage } };
    case "complete":
      return flushTail(state);
    case "tool_state":
      return patchCall(stepOf(state, event), event, (call) => ({
        state: event.state,
        tool_input: event.tool_input ?? call.tool_input,
        waiting_behind: event.waiting_behind,
      }));
    case "approval_request": {
      const { approval_id, tool_input, digest, warnings, preview, scopes, rules } = event;
      const asked = { approval_id, tool_input, digest, warnings, preview, scopes, rules };
      return patchCall(stepOf(state, event), event, () => ({ ...asked, state: "awaiting_approval", problem: null }));
    }
    case "approval_response":
      return patchCall(state, event, (call) => ({
        state: event.approved ? "approved" : "denied",
        approval_id: event.approval_id,
        reason: event.reason ?? call.reason,
        edited: event.edited,
        decided_at: event.timestamp,
        decider: decider(event.by, event.decided_by, context.live, context.own.has(event.approval_id)),
      }));
    case "tool_start":
      return patchCall(state, event, (call) => ({
        state: "executing",
        tool_input: event.tool_input,
        // The earlier preview was made of the model's arguments. Where others run, those are shown.
        preview: event.preview ?? (call.edited ? null : call.preview),
        started_at: event.timestamp,
        problem: null,
      }));
    case "tool_output":
      return patchCall(state, event, (call) => ({
        outputs: addOutput(call.outputs, event.index, event.output),
        waiting_behind: null,
      }));
    case "tool_complete": {
      const { state: ended, tool_result: result, duration_ms, truncated, output_file, cached_at, undo } = event;
      const outcome = { state: ended, result, duration_ms, truncated, output_file, cached_at, undo };
      const after = patchCall(state, event, (call) => ({
        ...outcome,
        reason: event.reason ?? call.reason,
        waiting_behind: null,
        ended_at: event.timestamp,
      }));
      return { ...after, stepEnding: true };
    }
    case "tool_seen":
      return patchCall(state, event, () => ({ seen_images: event.images }));
    case "tool_undone":
      return patchCall(state, event, ({ turned }) => ({ undone: !event.redo, turned: turned + 1, problem: null }));
    case "tool_answered":
      return patchCall(state, event, () => ({ unknown_answer: event.answer, problem: null }));
    case "error":
      // A pause has its own card.
      return typeof event.details["pause_id"] === "string" && event.code === "BUDGET_EXCEEDED"
        ? state
        : addProblem(state, event);
    case "policy": // the run's own view has it
    case "session":
    case "pong":
    case "ack":
      return state;
    default:
      return unknownEvent(event, state);
  }
}

export function decider(
  by: "user" | "policy" | "script" | null,
  name: string | null,
  live: boolean,
  own: boolean,
): Decider | null {
  if (by === null) return null;
  if (by !== "user") return { kind: by, name: by === "script" ? name : null };
  // Events of the past do not say which page sent the decision; without a name it can only have been this person.
  if (own || (!live && name === null)) return { kind: "you", name: null };
  return { kind: "other", name: name ?? ANOTHER_TAB };
}

/** Types that this version does not know are ignored, as the protocol asks; the types it knows are all handled. */
function unknownEvent(_event: never, state: RunState): RunState {
  return state;
}

function nextStep(state: RunState): RunState {
  return state.stepEnding ? { ...state, step: state.step + 1, stepEnding: false } : state;
}

/** News of a call that has a card belongs to the step that asked for it; a new one may begin the next step. */
function stepOf(state: RunState, { tool_call_id: id }: AboutCall): RunState {
  return callOf(state, id) ? state : nextStep(state);
}

function addToken(before: RunState, id: string, content: string): RunState {
  const state = nextStep(before);
  if (state.tail?.id === id) return { ...state, tail: { id, text: state.tail.text + content } };
  const flushed = flushTail(state);
  return withAnswer({ ...flushed, tail: { id, text: (flushed.texts[id] ?? "") + content } }, id);
}

function setMessage(before: RunState, id: string, content: string): RunState {
  const state = nextStep(before);
  const tail = state.tail?.id === id ? null : state.tail;
  return withAnswer({ ...state, tail, texts: { ...state.texts, [id]: content } }, id);
}

/** An answer that was cut off by a restart of the server: the model is asked again. */
function takeBack(state: RunState, id: string): RunState {
  const tail = state.tail?.id === id ? null : state.tail;
  return { ...state, tail, items: state.items.filter((item) => item.kind !== "answer" || item.id !== id) };
}

/** Additions to the budget since, each where the run went on with it, and the notices that the run has had since. */
function withNews(state: RunState, run: RunView, { live, own }: Context): RunState {
  const known = (kind: Item["kind"]): number => state.items.filter((item) => item.kind === kind).length;
  const notes = known("note");
  const news = [
    ...run.raises.slice(known("raise")).map((raise) => raiseItem(raise, live, own.has(raise.pause_id))),
    ...run.notices.slice(notes).map((notice, index) => noteItem(notice, notes + index)),
  ];
  return news.length === 0 ? state : { ...state, items: [...state.items, ...news] };
}

function noteItem(notice: NoticeView, index: number): Item {
  return { kind: "note", id: `note-${index}`, text: notice.content, detail: notice.detail ?? "" };
}

function raiseItem(raise: BudgetRaise, live: boolean, own: boolean): Item {
  const by = decider("user", raise.decided_by, live, own);
  return { kind: "raise", id: raise.pause_id, raise, by: by as Decider };
}

function flushTail(state: RunState): RunState {
  if (state.tail === null) return state;
  return { ...state, tail: null, texts: { ...state.texts, [state.tail.id]: state.tail.text } };
}

function withAnswer(state: RunState, id: string): RunState {
  if (state.items.some((item) => item.kind === "answer" && item.id === id)) return state;
  return { ...state, items: [...state.items, { kind: "answer", id }] };
}

interface AboutCall {
  readonly tool_call_id: string;
  readonly tool_name?: string;
}

export function patchCall(state: RunState, about: AboutCall, patch: (call: Call) => Partial<Call>): RunState {
  const { tool_call_id: id, tool_name: name = "" } = about;
  const known = callOf(state, id);
  const call = known ?? emptyCall(id, name, state.step);
  const items = known ? state.items : [...state.items, { kind: "call" as const, id }];
  return { ...state, items, calls: { ...state.calls, [id]: { ...call, ...patch(call) } } };
}

function addProblem(state: RunState, event: Extract<ServerEvent, { type: "error" }>): RunState {
  const problem = { code: event.code, message: event.message };
  const id = event.tool_call_id;
  if (id !== null && callOf(state, id)) return patchCall(state, { tool_call_id: id }, () => ({ problem }));
  const notice = { kind: "notice" as const, id: `notice-${state.items.length}`, problem };
  return { ...flushTail(state), items: [...state.items, notice] };
}

export function fromSnapshot(conversation: ConversationView, runId: string): RunState {
  const views = conversation.tool_calls.filter((view) => view.run_id === runId);
  const byId = new Map(views.map((view) => [view.tool_call_id, view]));
  const items: Item[] = [];
  const texts: Record<string, string> = {};
  // Without a prototype: a call may have the id `__proto__`.
  const calls = Object.create(null) as Record<string, Call>;
  let step = 0;
  let turns = 0;
  let called = false;
  const run = conversation.runs.find((view) => view.run_id === runId) ?? null;
  // What happened between two turns of the model, by how many it had had.
  const between = [
    ...(run?.raises ?? []).map((raise) => ({ steps: raise.steps, item: raiseItem(raise, false, false) })),
    ...(run?.notices ?? []).map((notice, index) => ({ steps: notice.steps, item: noteItem(notice, index) })),
  ].sort((one, other) => one.steps - other.steps);
  const placeBetween = (): void => {
    while (between[0] !== undefined && between[0].steps <= turns) items.push((between.shift() as { item: Item }).item);
  };
  const place = (view: ToolCallView): void => {
    called = true;
    items.push({ kind: "call", id: view.tool_call_id });
    calls[view.tool_call_id] = callFromView(view, step);
    byId.delete(view.tool_call_id);
  };
  for (const message of conversation.messages) {
    if (message.run_id !== runId || message.role !== "assistant") continue;
    if (called) step += 1;
    placeBetween();
    turns += 1;
    if (message.content !== "") {
      items.push({ kind: "answer", id: message.message_id });
      texts[message.message_id] = message.content;
    }
    for (const id of message.tool_calls) {
      const view = byId.get(id);
      if (view) place(view);
    }
  }
  for (const view of [...byId.values()]) place(view);
  turns = Infinity;
  placeBetween();
  if (run?.error) items.push({ kind: "notice", id: "notice-snapshot", problem: run.error });
  const stepEnding = Object.values(calls).some((call) => call.step === step && call.ended_at !== null);
  return { ...emptyRun(runId), run, items, texts, calls, step, stepEnding };
}

function callFromView({ by, decided_by, outputs, ...view }: ToolCallView, step: number): Call {
  return {
    ...view,
    decider: decider(by, decided_by, false, false),
    outputs: outputs.reduce((all, output, index) => addOutput(all, index, output), NO_OUTPUTS),
    turned: 0,
    step,
    problem: null,
  };
}
