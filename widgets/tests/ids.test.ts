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
});

describe("a call whose id is any text", () => {
  const ids = ["constructor", "__proto__", '"]<b>\\', `call__thought__${"A/+=".repeat(999)}`].map(
    (id) => [id.slice(0, 24), id] as const,
  );

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
