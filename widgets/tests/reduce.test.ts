import { describe, expect, test } from "vitest";
import type { ConversationView, ServerEvent } from "../src/protocol";
import { emptyRun, type RunState } from "../src/state/model";
import { fromSnapshot, reduce } from "../src/state/reduce";
import { callView, events, Recording, said } from "./page";

const CONTEXT = { live: true, own: new Set<string>() };

function replay(recording: Recording, context = CONTEXT): RunState {
  return events(recording).reduce((state, event) => reduce(state, event, context), emptyRun(recording.run));
}

describe("the answer", () => {
  test("is the tokens in their order, and one text when the whole message follows them", () => {
    const state = replay(new Recording("c").say("The mean is 42.", false));
    expect(state.tail?.text).toBe("The mean is 42.");
    expect(state.items).toHaveLength(1);
    const whole = replay(new Recording("c").say("The mean is 42."));
    expect([whole.tail, ...Object.values(whole.texts)]).toEqual([null, "The mean is 42."]);
  });

  test("is taken back where a restart of the server cut it off", () => {
    const before = replay(new Recording("c").say("Half an ans", false));
    const id = before.tail?.id ?? "";
    const event = { type: "message", role: "assistant", message_id: id, content: "" } as ServerEvent;
    const after = reduce(before, event, CONTEXT);
    expect(after.tail).toBeNull();
    expect(after.items).toHaveLength(0);
  });
});

describe("a call", () => {
  test("shows what runs once a person has changed it, and no preview of other arguments", () => {
    const preview = { kind: "diff" as const, language: "diff", text: "--- a\n+++ a\n@@ -1 +1 @@\n-1\n+2" };
    for (const edited of [true, false]) {
      const recording = new Recording("c").ask("t1", "edit_file", { old: 1 }, { preview });
      recording.answer("t1", true, { edited }).start("t1", "edit_file", { old: 2 });
      const shown = { tool_input: '{"old":2}', edited, preview: edited ? null : preview };
      expect(replay(recording).calls["t1"]).toMatchObject(shown);
    }
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
});

test("an event of a type from the future changes nothing", () => {
  const state = replay(new Recording("c").say("Hello"));
  expect(reduce(state, { type: "hologram", seq: 99 } as unknown as ServerEvent, CONTEXT)).toBe(state);
});

test("a snapshot shows what the events would have shown", () => {
  const recording = new Recording("c").say("First").did("t1", "run_python", { code: "1" }, 5).say("Then").finish();
  const live = replay(recording);
  const [first, then] = live.items.flatMap((item) => (item.kind === "answer" ? [item.id] : []));
  const messages = [{ ...said(recording.run, "First", first), tool_calls: ["t1"] }, said(recording.run, "Then", then)];
  const tool_calls = [callView("t1", recording.run, { duration_ms: 5 })];
  const snapshot = { ...recording.session().snapshot, status: "idle", runs: [live.run], messages, tool_calls };
  const state = fromSnapshot(snapshot as unknown as ConversationView, recording.run);
  expect(state.items).toEqual(live.items);
  expect(state.texts).toEqual(live.texts);
  expect(state.calls["t1"]?.state).toBe("success");
  expect([state.step, state.calls["t1"]?.step]).toEqual([live.step, live.calls["t1"]?.step]);
});
