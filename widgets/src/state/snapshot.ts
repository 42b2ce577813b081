/** A run's view state from the `session` event's snapshot. */
import type { ConversationView, ToolCallView } from "../protocol";
import { emptyCall, emptyRun, type Call, type Item, type RunState } from "./model";
import { addOutput, NO_OUTPUTS } from "./outputs";
import { decider, noteItem, raiseItem } from "./reduce";

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
  const stepEnding = Object.values(calls).some((call) => call.step === step && call.endedAt !== null);
  return { ...emptyRun(runId), run, items, texts, calls, step, stepEnding };
}

function callFromView(view: ToolCallView, step: number): Call {
  return {
    ...emptyCall(view.tool_call_id, view.tool_name, step),
    approvalId: view.approval_id,
    input: view.tool_input,
    digest: view.digest,
    state: view.state,
    decider: decider(view.by, view.decided_by, view.decided_at, false, false),
    reason: view.reason,
    edited: view.edited,
    recorded: view.recorded,
    warnings: view.warnings,
    preview: view.preview,
    scopes: view.scopes,
    rules: view.rules,
    decidedAt: view.decided_at,
    startedAt: view.started_at,
    endedAt: view.ended_at,
    durationMs: view.duration_ms,
    result: view.result,
    truncated: view.truncated,
    outputFile: view.output_file,
    cachedAt: view.cached_at,
    waitingBehind: view.waiting_behind,
    undo: view.undo,
    undone: view.undone,
    unknownAnswer: view.unknown_answer,
    seenImages: view.seen_images,
    outputs: view.outputs.reduce((outputs, output, index) => addOutput(outputs, index, output), NO_OUTPUTS),
  };
}
