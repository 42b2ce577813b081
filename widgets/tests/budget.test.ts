import { describe, expect, test } from "vitest";
import { fromSnapshot } from "../src/state/reduce";
import type { ClientCommand, ConversationView } from "../src/protocol";
import {
  accessibleName,
  runtime,
  button,
  buttons,
  happens,
  key,
  PlayedSocket,
  press,
  Recording,
  settle,
  show,
  usePage,
  view,
} from "./page";

usePage();

const paused = (run: Recording): Recording =>
  run
    .did("t1", "run_python", { code: "1" }, 5)
    .pause(["tokens"], { tokens: 200_000, tool_calls: 100, seconds: 1_800 }, { total_tokens: 200_000, tool_calls: 14 });
const card = (root: HTMLElement): HTMLElement | null => root.querySelector('[role=group][aria-label="Budget reached"]');
const answers = (): ClientCommand[] => PlayedSocket.sent.filter((command) => command.type === "budget");
const said = (root: Element | null): string => (root?.textContent ?? "").replaceAll(/\s+/g, " ");

function write(root: HTMLElement, name: string, text: string): void {
  const field = root.querySelector<HTMLInputElement>(`input[aria-label="${name}"]`)!;
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

describe("a run at its budget", () => {
  test("waits for the person, and shows what it has spent of each limit", async () => {
    const root = await show(paused);
    expect(said(root.querySelector(".ak-status"))).toBe("Waiting for you");
    const meters = [...root.querySelectorAll("[role=meter]")].map(
      (one) => `${accessibleName(one)}: ${one.getAttribute("aria-valuetext")}`,
    );
    expect(meters).toEqual([
      "Tokens: 200,000 of 200,000",
      "Tool calls: 14 of 100",
      "Time: 6\u00a0min 18\u00a0s of 30\u00a0min",
    ]);
    expect(root.querySelector("[role=alert]")).toBeNull();
    expect(button(root, "Stop")).toBeTruthy();
  });

  test("goes on with what is in the field, which offers half of what there was", async () => {
    const root = await show(paused);
    expect(root.querySelector("input")!.value).toBe("100,000");
    write(root, "Add tokens", "50 000");
    await settle();
    await press(root, "Continue");
    expect(answers()).toEqual([
      {
        type: "budget",
        run_id: expect.any(String),
        pause_id: runtime.recording!.view.paused.pause_id,
        add: { tokens: 50_000, usd: null, tool_calls: null, seconds: null, steps: null },
      },
    ]);
    expect(said(card(root))).toContain("You chose Continue.");
    await happens((run) => run.raise({ tokens: 50_000 }));
    expect(card(root)).toBeNull();
    expect(said(root.querySelector(".ak-raised"))).toContain("Budget raised by you,");
    expect(said(root.querySelector(".ak-raised"))).toContain("50,000 tokens.");
  });

  test("is asked for each limit that it reached, minutes for seconds", async () => {
    const root = await show((run) =>
      run.pause(["tool_calls", "seconds"], { tokens: null, tool_calls: 20, seconds: 600 }, { tool_calls: 20 }, 643),
    );
    await press(root, "Continue");
    expect(answers()).toMatchObject([{ add: { tokens: null, tool_calls: 10, seconds: 300 } }]);
  });

  test.each(["", "0", "-5", "many", "1e99"])("%j is no amount: Continue is off and says why", async (text) => {
    const root = await show(paused);
    write(root, "Add tokens", text);
    await settle();
    await press(root, "Continue");
    expect(answers()).toEqual([]);
    const why = button(root, "Continue").getAttribute("aria-describedby")!;
    expect(document.getElementById(why)!.textContent).toBe("Write a number above 0.");
  });

  test("Enter in the field and Ctrl Enter on the card continue; letters do nothing, a held key neither", async () => {
    const root = await show(paused);
    const field = root.querySelector("input")!;
    await key(card(root)!, "a");
    await key(field, "Enter", { repeat: true });
    expect(answers()).toEqual([]);
    expect((await key(field, "Enter")).defaultPrevented).toBe(true);
    expect(answers()).toHaveLength(1);
    await happens((run) => run.raise({ tokens: 1 }).pause(["tokens"], { tokens: 200_001 }, { total_tokens: 200_001 }));
    await settle(500);
    await key(card(root)!, "Enter", { ctrlKey: true });
    expect(answers()).toHaveLength(2);
  });

  test("is answered once, and the focus stays in the run", async () => {
    const root = await show(paused);
    root.querySelector("input")!.focus();
    await press(root, "Continue");
    expect(buttons(card(root)!)).toEqual([]);
    expect(root.contains(document.activeElement)).toBe(true);
    expect(card(root)!.contains(document.activeElement)).toBe(false);
  });

  test("a second answer changed nothing, and the card says who was first", async () => {
    const root = await show(paused);
    await press(root, "Continue");
    await happens((run) => run.raise({ tokens: 7 }, "ana"));
    PlayedSocket.last.say({
      type: "error",
      seq: 1,
      conversation_id: "",
      run_id: null,
      timestamp: "",
      command_id: PlayedSocket.last.ids.at(-1),
      code: "CONFLICT",
      message: "Already decided: budget raised by ana, 2026-11-20T14:03:02.000Z. Nothing was added.",
      tool_call_id: null,
      details: { run_id: runtime.recording!.run, pause_id: runtime.recording!.view.raises[0].pause_id },
    });
    await settle();
    expect(said(root.querySelector(".ak-raised"))).toContain("Budget raised by ana,");
    expect(said(root.querySelector("[data-code=CONFLICT]"))).toMatch(
      /^Already decided\. Budget raised by ana, \d+:03:02\s?\w*\. Nothing was added\./,
    );
  });

  test("where the runtime could not write it down, it can be tried again", async () => {
    const root = await show(paused);
    await press(root, "Continue");
    PlayedSocket.last.say({
      type: "error",
      seq: 1,
      conversation_id: "",
      run_id: null,
      timestamp: "",
      code: "INTERNAL_ERROR",
      message: "The log takes nothing: the disk is full.",
      tool_call_id: null,
      details: {},
      command_id: PlayedSocket.last.ids.at(-1),
    });
    await settle(500);
    await press(root, "Continue");
    expect(answers()).toHaveLength(2);
  });

  test("without a connection an answer is kept, can be taken back, and is sent once when the line is back", async () => {
    const root = await show(paused);
    PlayedSocket.refuse = true;
    PlayedSocket.last.drop();
    await settle();
    await press(root, "Continue");
    expect(said(card(root))).toContain("It is sent when the connection is back.");
    await press(root, "Take back");
    await settle(500);
    await press(root, "Continue");
    PlayedSocket.refuse = false;
    await settle(30_000);
    expect(answers()).toHaveLength(1);
    expect(said(card(root))).not.toContain("It is sent when");
  });

  test("an answer that a dying server has received and not written is sent again", async () => {
    const root = await show(paused);
    await press(root, "Continue");
    PlayedSocket.last.drop();
    await settle(20_000);
    expect(answers()).toHaveLength(2);
    expect(answers()[1]).toEqual(answers()[0]);
    PlayedSocket.last.drop();
    runtime.recording!.raise({ tokens: 100_000 });
    await settle(20_000);
    expect(answers()).toHaveLength(2);
    expect(card(root)).toBeNull();
  });

  test("after a minute without a connection nothing can be decided, and the card says so", async () => {
    const root = await show(paused);
    PlayedSocket.refuse = true;
    PlayedSocket.last.drop();
    await settle(70_000);
    await press(root, "Continue");
    expect(said(card(root))).toContain("Off until the connection is back.");
    expect(said(card(root))).not.toContain("You chose");
  });

  test("a second page shows the same, and so does a page that comes later", async () => {
    await show(paused);
    const second = view(runtime.recording!);
    await settle();
    expect(card(second)).not.toBeNull();
    await happens((run) => run.raise({ tokens: 1 }, "ana"));
    expect(card(second)).toBeNull();
  });

  test("says what it has cost of its dollars, and takes more of them", async () => {
    const root = await show((run) => run.pause(["usd"], { tokens: null, usd: 0.5 }, { cost: 0.5031 }));
    expect(accessibleName(root.querySelector("[role=meter]")!)).toBe("Cost");
    expect(root.querySelector("[role=meter]")!.getAttribute("aria-valuetext")).toBe("$0.50 of $0.50");
    expect(root.querySelector("input")!.value).toBe("0.25");
    write(root, "Add dollars", "$1,000,50");
    await settle();
    await press(root, "Continue");
    expect(answers()).toEqual([]);
    write(root, "Add dollars", "$1,000.50");
    await settle();
    await press(root, "Continue");
    expect(answers()).toMatchObject([{ add: { usd: 1000.5, tokens: null } }]);
    await happens((run) => run.raise({ usd: 1000.5 }, "ana"));
    expect(said(root.querySelector(".ak-raised"))).toContain("$1,000.50.");
  });

  test.each([
    ["0.05", 0.05],
    [".5", 0.5],
    ["0,25", 0.25],
    ["2", 2],
  ])("%j dollars are %d", async (text, usd) => {
    const root = await show((run) => run.pause(["usd"], { usd: 0.5 }, { cost: 0.6 }));
    write(root, "Add dollars", text);
    await settle();
    await press(root, "Continue");
    expect(answers()).toMatchObject([{ add: { usd } }]);
  });

  test("whose model has no known price says that its dollars can't be checked, and goes on without them", async () => {
    const root = await show((run) =>
      run.pause(["usd"], { tokens: null, usd: 0.5 }, { cost: null, total_tokens: 0 }, 1, true),
    );
    expect(card(root)).toBeNull();
    const unpriced = root.querySelector<HTMLElement>('[role=group][aria-label="Budget can\'t be checked"]')!;
    expect(said(unpriced)).toContain("Not known, of $0.50");
    expect(unpriced.querySelector("input")).toBeNull();
    await press(root, "Continue without it");
    expect(answers()).toMatchObject([{ without_usd: true, add: { usd: null } }]);
    await happens((run) => run.raise({}, "ana", true));
    expect(said(root.querySelector(".ak-raised"))).toContain("Limit in US dollars taken away by you,");
  });

  test("a run that has ended asks for nothing", async () => {
    const root = await show((run) => paused(run).finish("cancelled"));
    expect(card(root)).toBeNull();
  });
});

test("what was added stands where it was in a page that comes after many events", () => {
  const recording = new Recording("c")
    .pause(["tokens"], { tokens: 10 }, { total_tokens: 10, steps: 1 })
    .raise({ tokens: 5 });
  const message = (id: string) => ({
    message_id: id,
    run_id: recording.run,
    role: "assistant",
    content: id,
    tool_calls: [],
    tool_call_id: null,
    reasoning: "",
  });
  const snapshot = {
    ...recording.session().snapshot,
    messages: [message("first"), message("second")],
  } as unknown as ConversationView;
  expect(fromSnapshot(snapshot, recording.run).items.map((item) => item.kind)).toEqual(["answer", "raise", "answer"]);
});

describe("a run that repeats itself", () => {
  const WHAT = "run_python gave the same result to the same arguments three times";
  const named = (root: HTMLElement, name: string): HTMLElement | null =>
    root.querySelector(`[role=group][aria-label="${name}"]`);

  test("says what it repeats, and goes on at a click or Ctrl Enter", async () => {
    const root = await show((run) => run.repeat(WHAT));
    expect(said(root.querySelector(".ak-status"))).toBe("Waiting for you");
    const card = named(root, "The agent repeats itself")!;
    expect(said(card)).toContain(`${WHAT}. The run is paused`);
    expect(card.querySelector("[role=meter], input")).toBeNull();
    expect(buttons(card)).toEqual(["Continue"]);
    await press(root, "Continue");
    expect(answers()).toMatchObject([
      { pause_id: runtime.recording!.view.paused.pause_id, add: { tokens: null, steps: null } },
    ]);
    await happens((run) => run.raise({}));
    expect(named(root, "The agent repeats itself")).toBeNull();
    expect(said(root.querySelector(".ak-raised"))).toContain(
      `The agent repeated itself: ${WHAT}. Told to go on by you,`,
    );
  });

  test("the budget of a conversation counts the runs before, and is named", async () => {
    const root = await show((run) => run.pauseConversation(["tool_calls"], { tool_calls: 20 }, { tool_calls: 17 }));
    const card = named(root, "Conversation\u2019s budget reached")!;
    expect(card.querySelector("[role=meter]")!.getAttribute("aria-valuemax")).toBe("20");
    expect(card.querySelector("input")!.value).toBe("10");
    await press(root, "Continue");
    await happens((run) => run.raise({ tool_calls: 10 }));
    expect(said(root.querySelector(".ak-raised"))).toContain("Budget of the conversation raised by you,");
  });
});
