import { describe, expect, test } from "vitest";
import { fromSnapshot, reduce } from "../src/state/reduce";
import { PYTHON } from "./cards";
import {
  buttons,
  callView,
  card,
  decisions,
  kernelView,
  press,
  Recording,
  said,
  settle,
  show,
  usePage,
  type KernelView,
} from "./page";

usePage();

/** Conversations whose models count their calls alike, each with its cards on the same page. */
function pageOf(...names: string[]): KernelView[] {
  return names.map((name) => {
    const recording = new Recording(name).ask("call_0", "run_python", PYTHON, { approval_id: `apr_${name}` });
    const view = kernelView(recording);
    view.deliver(recording);
    return view;
  });
}

function cards(views: KernelView[]): HTMLElement[] {
  return views.map((view) => card(view.root, "call_0"));
}

describe("two conversations on one page, with a call of the same id", () => {
  test("a decision is for the call of its own conversation, and leaves the other waiting", async () => {
    const views = pageOf("one", "two");
    await settle();
    const [first, second] = cards(views);
    await press(second!, "Approve");
    const sent = views.map((view) =>
      (view.sent as { command: { type: string; approval_id?: string } }[]).flatMap(({ command }) =>
        command.type === "approval_response" ? [command.approval_id] : [],
      ),
    );
    expect(sent).toEqual([[], ["apr_two"]]);
    expect(buttons(first!)).toContain("Approve");
    expect(buttons(second!)).not.toContain("Approve");
    for (const view of views) view.close();
  });

  test("no element's id is another one's, so that each label names its own field", async () => {
    const views = pageOf("three", "four");
    await settle();
    for (const one of cards(views)) await press(one, "Deny");
    const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
    expect(ids.length).toBeGreaterThan(2);
    expect(new Set(ids).size).toBe(ids.length);
    for (const one of cards(views)) {
      const field = one.querySelector("textarea")!;
      expect(document.getElementById(field.id)).toBe(field);
      expect(one.contains(document.getElementById(field.getAttribute("aria-describedby")!))).toBe(true);
    }
    for (const view of views) view.close();
  });

  test("a choice on one card takes back none on the other", async () => {
    const views = pageOf("five", "six");
    await settle();
    for (const one of cards(views)) await press(one, "Always allow");
    const choices = cards(views).map((one) => [...one.querySelectorAll<HTMLInputElement>("input[type=radio]")]);
    const chosen = (): boolean[][] => choices.map((radios) => radios.map((radio) => radio.checked));
    const before = chosen();
    choices[1]!.at(-1)!.click();
    await settle();
    const [first, second] = chosen();
    expect(first).toEqual(before[0]);
    expect(second).not.toEqual(before[1]);
    for (const view of views) view.close();
  });
});

test("a refusal is shown on the newest card of its id: an older run's was cut off while the model wrote it", async () => {
  const older = new Recording("c").propose("call_0", "run_python", null).end("call_0", "", "cancelled").finish();
  const newer = new Recording("d").ask("call_0", "run_python", PYTHON);
  const view = kernelView(newer);
  const frames = [...older.frames, ...newer.frames].map((frame, index) => ({
    ...frame,
    seq: index + 1,
    conversation_id: "d",
  }));
  view.say(...frames);
  const other = kernelView(older);
  other.say(...frames);
  const [code, tool_call_id] = ["CONFLICT", "call_0"];
  const refusal = { type: "error", seq: 0, conversation_id: "d", code, message: "Too late.", tool_call_id };
  view.say(refusal);
  other.say(refusal);
  await settle();
  expect([view, other].map((one) => one.root.textContent?.includes("Too late."))).toEqual([true, false]);
  view.close();
  other.close();
});

describe("a call whose id is any text", () => {
  const ids = [
    "constructor",
    "__proto__",
    "toString",
    "0",
    "functions.run_python:0",
    '"]<b>\\',
    "../../x",
    `call__thought__${"A/+=".repeat(999)}`,
  ].map((id) => [id.slice(0, 24), id] as const);

  test.each(ids)("%s", async (_, id) => {
    const root = await show((run) => run.ask(id, "run_python", PYTHON));
    expect(card(root, id).dataset["toolCallId"]).toBe(id);
    await press(card(root, id), "Approve");
    expect(decisions().map((decision) => decision.approval_id)).toEqual([`apr_${id}`]);
  });

  test.each(ids)("%s, from a snapshot", (_, id) => {
    const recording = new Recording("c");
    const message = { ...said(recording.run, ""), tool_calls: [id] };
    const tool_calls = [callView(id, recording.run)];
    const snapshot = { ...recording.session().snapshot, runs: [], messages: [message], tool_calls };
    const state = fromSnapshot(snapshot as never, recording.run);
    expect(state.items).toEqual([{ kind: "call", id }]);
    const event = { type: "tool_undone", seq: 9, run_id: recording.run, tool_call_id: id, decided_by: null };
    const undone = reduce(state, event as never, { live: true, own: new Set<string>() });
    expect(undone.items).toHaveLength(1);
    expect(Object.entries(undone.calls).map(([key, call]) => [key, call.undone, call.state])).toEqual([
      [id, true, "success"],
    ]);
  });
});
