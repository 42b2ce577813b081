import { describe, expect, test } from "vitest";
import type { ConversationView, ServerEvent } from "../src/protocol";
import { emptyRun, type RunState } from "../src/state/model";
import { fromSnapshot, reduce } from "../src/state/reduce";
import { events, Recording } from "./page";

const CONTEXT = { live: true, own: new Set<string>() };

function replay(recording: Recording, context = CONTEXT): RunState {
  return events(recording).reduce((state, event) => reduce(state, event, context), emptyRun(recording.run));
}

describe("the answer", () => {
  test("is the tokens in their order", () => {
    const state = replay(new Recording("c").say("The mean is 42.", false));
    expect(state.tail?.text).toBe("The mean is 42.");
    expect(state.items).toHaveLength(1);
  });

  test("is one text when the whole message follows its tokens", () => {
    const state = replay(new Recording("c").say("The mean is 42."));
    expect(state.tail).toBeNull();
    expect(Object.values(state.texts)).toEqual(["The mean is 42."]);
  });

  test("is taken back where a restart of the server cut it off", () => {
    const before = replay(new Recording("c").say("Half an ans", false));
    const id = before.tail?.id ?? "";
    const event = { type: "message", role: "assistant", message_id: id, content: "" } as ServerEvent;
    const after = reduce(before, event, CONTEXT);
    expect(after.tail).toBeNull();
    expect(after.items).toHaveLength(0);
  });

  test("a token leaves finished answers and cards as they were, whatever their number", () => {
    const recording = new Recording("c");
    for (let step = 0; step < 50; step += 1)
      recording.say(`Step ${step}`).did(`t${step}`, "run_python", { code: "1" }, 5);
    recording.say("Now", false);
    const before = replay(recording);
    const after = reduce(before, { ...events(recording).at(-1), content: " more" } as ServerEvent, CONTEXT);
    expect(after.tail?.text).toBe("Now more");
    expect(after.items).toBe(before.items);
    expect(after.texts).toBe(before.texts);
    expect(after.calls).toBe(before.calls);
  });

  test("answers and calls stand in the model's order", () => {
    const state = replay(
      new Recording("c").say("First").did("t1", "run_python", { code: "1" }, 5).say("Then").finish(),
    );
    expect(state.items.map((item) => item.kind)).toEqual(["answer", "call", "answer"]);
  });
});

describe("a call", () => {
  test("shows what runs, not what was proposed, once a person has changed it", () => {
    const recording = new Recording("c").ask("t1", "run_python", { code: "drop()" });
    recording.answer("t1", true, { edited: true }).start("t1", "run_python", { code: "keep()" });
    const call = replay(recording).calls["t1"];
    expect(call?.tool_input).toBe('{"code":"keep()"}');
    expect(call?.edited).toBe(true);
  });

  test("is not shown by a preview of other arguments, once a person has changed it", () => {
    const preview = { kind: "diff" as const, language: "diff", text: "--- a\n+++ a\n@@ -1 +1 @@\n-1\n+2" };
    const asked = (edited: boolean): Recording =>
      new Recording("c")
        .ask("t1", "edit_file", {}, { preview })
        .answer("t1", true, { edited })
        .start("t1", "edit_file", {});
    expect(replay(asked(true)).calls["t1"]?.preview).toBeNull();
    expect(replay(asked(false)).calls["t1"]?.preview).toEqual(preview);
  });

  test("says who decided: you, another tab, a name, policy, a script", () => {
    const decided = (extra: object, own: string[] = [], live = true): unknown => {
      const recording = new Recording("c").ask("t1", "run_python", { code: "1" }).answer("t1", true, extra);
      const decider = replay(recording, { live, own: new Set(own) }).calls["t1"]?.decider;
      return [decider?.kind, decider?.name];
    };
    expect(decided({ decided_by: "ana" }, ["apr_t1"])).toEqual(["you", null]);
    expect(decided({})).toEqual(["other", "another tab"]);
    expect(decided({ decided_by: "ana" })).toEqual(["other", "ana"]);
    expect(decided({}, [], false)).toEqual(["you", null]);
    expect(decided({ by: "policy" })).toEqual(["policy", null]);
    expect(decided({ by: "script" })).toEqual(["script", null]);
  });

  test("keeps each output once when frames come twice", () => {
    const recording = new Recording("c").did("t1", "run_python", { code: "1" }, 5, [
      { kind: "stream", name: "stdout", text: "one\n" },
    ]);
    const output = events(recording).find((event) => event.type === "tool_output") as ServerEvent;
    const state = reduce(replay(recording), output, CONTEXT);
    expect(state.calls["t1"]?.outputs.blocks).toHaveLength(1);
    expect(state.calls["t1"]?.outputs.blocks[0]).toMatchObject({ text: "one\n" });
  });
});

test("an event of a type from the future changes nothing", () => {
  const state = replay(new Recording("c").say("Hello"));
  expect(reduce(state, { type: "hologram", seq: 99 } as unknown as ServerEvent, CONTEXT)).toBe(state);
});

test("a snapshot shows what the events would have shown", () => {
  const recording = new Recording("c").say("First").did("t1", "run_python", { code: "1" }, 5).say("Then").finish();
  const live = replay(recording);
  const ids = live.items.filter((item) => item.kind === "answer").map((item) => item.id);
  const message = { run_id: recording.run, role: "assistant" as const, tool_call_id: null, reasoning: "" };
  const state = fromSnapshot(
    {
      ...recording.session().snapshot,
      status: "idle",
      runs: [live.run!],
      messages: [
        { ...message, message_id: ids[0]!, content: "First", tool_calls: ["t1"] },
        { ...message, message_id: ids[1]!, content: "Then", tool_calls: [] },
      ],
      tool_calls: [
        {
          tool_call_id: "t1",
          approval_id: "apr_t1",
          conversation_id: "c",
          run_id: recording.run,
          tool_name: "run_python",
          tool_input: '{"code":"1"}',
          digest: "",
          state: "success",
          reason: null,
          by: "user",
          result: "",
          decided_by: null,
          edited: false,
          recorded: false,
          read_only: false,
          warnings: [],
          preview: null,
          created_at: "",
          decided_at: null,
          started_at: null,
          ended_at: "x",
          duration_ms: 5,
          truncated: false,
          output_file: null,
          scopes: [],
          rules: [],
          outputs: [],
          undo: null,
          undone: false,
          waiting_behind: null,
          unknown_answer: null,
          seen_images: 0,
          place: null,
          cached_at: null,
        },
      ],
    },
    recording.run,
  );
  expect(state.items).toEqual(live.items);
  expect(state.texts).toEqual(live.texts);
  expect(state.calls["t1"]?.state).toBe("success");
  expect([state.step, state.calls["t1"]?.step]).toEqual([live.step, live.calls["t1"]?.step]);
});

describe("a page that is opened after many events", () => {
  const view = (id: string, more: object): object => ({
    tool_call_id: id,
    approval_id: `apr_${id}`,
    conversation_id: "c",
    run_id: "run_c",
    tool_name: "write_file",
    tool_input: "{}",
    digest: "d",
    state: "success",
    reason: null,
    by: "user",
    result: "",
    decided_by: null,
    edited: false,
    recorded: false,
    read_only: false,
    warnings: [],
    preview: null,
    created_at: "",
    decided_at: null,
    started_at: null,
    ended_at: null,
    duration_ms: null,
    truncated: false,
    output_file: null,
    outputs: [],
    scopes: [],
    rules: [],
    undo: null,
    undone: false,
    waiting_behind: null,
    unknown_answer: null,
    seen_images: 0,
    place: null,
    ...more,
  });

  test("still offers Undo, knows what was undone, which cell a call waits behind, and what the model has seen", () => {
    const tool_calls = [
      view("a", { undo: "2026-11-20T14:11:20Z" }),
      view("b", { undo: "", undone: true }),
      view("c", { state: "executing", waiting_behind: 9 }),
      view("d", { seen_images: 2 }),
    ];
    const snapshot = { ...new Recording("c").session().snapshot, tool_calls } as unknown as ConversationView;
    const { calls } = fromSnapshot(snapshot, "run_c");
    expect(calls["a"]).toMatchObject({ undo: "2026-11-20T14:11:20Z", undone: false });
    expect(calls["b"]).toMatchObject({ undone: true });
    expect(calls["c"]).toMatchObject({ waiting_behind: 9 });
    expect(calls["d"]).toMatchObject({ seen_images: 2 });
  });
});
