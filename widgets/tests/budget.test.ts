import { describe, expect, test } from "vitest";
import { fromSnapshot } from "../src/state/reduce";
import type { ClientCommand, ConversationView } from "../src/protocol";
import {
  accessibleName,
  runtime,
  button,
  buttons,
  fill,
  happens,
  PlayedSocket,
  press,
  Recording,
  said,
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
const named = (root: HTMLElement, name: string): HTMLElement | null =>
  root.querySelector(`[role=group][aria-label="${name}"]`);
const card = (root: HTMLElement): HTMLElement | null => named(root, "Budget reached");
const answers = (): ClientCommand[] => PlayedSocket.sent.filter((command) => command.type === "budget");
const words = (root: Element | null): string => (root?.textContent ?? "").replaceAll(/\s+/g, " ");
const raised = (root: HTMLElement): string => words(root.querySelector(".ak-raised"));
const write = (root: HTMLElement, name: string, text: string): Promise<void> =>
  fill(root.querySelector<HTMLInputElement>(`input[aria-label="${name}"]`)!, text);

describe("a run at its budget", () => {
  test("waits for the person, and shows what it has spent of each limit", async () => {
    const root = await show(paused);
    expect(words(root.querySelector(".ak-status"))).toBe("Waiting for you");
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
    await happens((run) => run.finish("cancelled"));
    expect(card(root)).toBeNull();
  });

  test("goes on with what is in the field, which offers half of what there was, in every page", async () => {
    const root = await show(paused);
    const second = view(runtime.recording!);
    await settle();
    expect(root.querySelector("input")!.value).toBe("100000");
    await write(root, "Add tokens", "50000");
    root.querySelector("input")!.focus();
    await press(root, "Continue");
    const { run: run_id, view: before } = runtime.recording!;
    const add = { tokens: 50_000, usd: null, tool_calls: null, seconds: null, steps: null };
    expect(answers()).toEqual([{ type: "budget", run_id, pause_id: before.paused.pause_id, add }]);
    expect(words(card(root))).toContain("You chose Continue.");
    expect(buttons(card(root)!), "it is answered once").toEqual([]);
    expect(root.contains(document.activeElement) && !card(root)!.contains(document.activeElement)).toBe(true);
    await happens((run) => run.raise({ tokens: 50_000 }));
    expect([card(root), card(second)]).toEqual([null, null]);
    expect(raised(root)).toMatch(/^Budget raised by you,.*50,000 tokens\./);
  });

  test.each(["0", "many"])("%j is no amount: Continue is off and says why", async (text) => {
    const root = await show(paused);
    await write(root, "Add tokens", text);
    await press(root, "Continue");
    expect(answers()).toEqual([]);
    const why = button(root, "Continue").getAttribute("aria-describedby")!;
    expect(document.getElementById(why)!.textContent).toBe("Write a number above 0.");
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
});

test("what was added stands where it was in a page that comes after many events", () => {
  const recording = new Recording("c")
    .pause(["tokens"], { tokens: 10 }, { total_tokens: 10, steps: 1 })
    .raise({ tokens: 5 });
  const messages = ["first", "second"].map((content) => said(recording.run, content));
  const snapshot = { ...recording.session().snapshot, messages } as unknown as ConversationView;
  expect(fromSnapshot(snapshot, recording.run).items.map((item) => item.kind)).toEqual(["answer", "raise", "answer"]);
});

test("a run that repeats itself says what it repeats, and goes on at a click", async () => {
  const what = "run_python gave the same result to the same arguments three times";
  const root = await show((run) => run.repeat(what));
  expect(words(root.querySelector(".ak-status"))).toBe("Waiting for you");
  const card = named(root, "The agent repeats itself")!;
  expect(words(card)).toContain(`${what}. The run is paused`);
  expect(card.querySelector("[role=meter], input")).toBeNull();
  expect(buttons(card)).toEqual(["Continue"]);
  await press(root, "Continue");
  const { pause_id } = runtime.recording!.view.paused;
  expect(answers()).toMatchObject([{ pause_id, add: { tokens: null, steps: null } }]);
  await happens((run) => run.raise({}));
  expect(named(root, "The agent repeats itself")).toBeNull();
  expect(raised(root)).toContain(`The agent repeated itself: ${what}. Told to go on by you,`);
});
