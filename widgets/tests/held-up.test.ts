/** What holds a run up, and the way on: a budget, a service that is asked again, the run ahead. */
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
  card,
  decisions,
} from "./page";
import { asks } from "./cards";

usePage();

const paused = (run: Recording): Recording =>
  run
    .did("t1", "run_python", { code: "1" }, 5)
    .pause(["tokens"], { tokens: 200_000, tool_calls: 100, seconds: 1_800 }, { total_tokens: 200_000, tool_calls: 14 });
const named = (root: HTMLElement, name: string): HTMLElement | null =>
  root.querySelector(`[role=group][aria-label="${name}"]`);
const pauseCard = (root: HTMLElement): HTMLElement | null => named(root, "Budget reached");
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
    expect(pauseCard(root)).toBeNull();
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
    expect(words(pauseCard(root))).toContain("You chose Continue.");
    expect(buttons(pauseCard(root)!), "it is answered once").toEqual([]);
    expect(root.contains(document.activeElement) && !pauseCard(root)!.contains(document.activeElement)).toBe(true);
    await happens((run) => run.raise({ tokens: 50_000 }));
    expect([pauseCard(root), pauseCard(second)]).toEqual([null, null]);
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
    expect(pauseCard(root)).toBeNull();
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

const at = (seconds: number): string => new Date(Date.now() + 1_000 * seconds).toISOString();
const limited = (seconds: number, more = {}): object => ({
  kind: "rate_limited",
  since: at(0),
  until: at(seconds),
  attempt: 2,
  tries: 4,
  cause: "Rate limit reached",
  ...more,
});
const bar = (root: HTMLElement): HTMLElement | null => root.querySelector("[data-delay]");
const textOf = (root: Element | null): string => (root?.textContent ?? "").replaceAll(/\s+/g, " ").trim();

describe("a run whose model's service is asked again", () => {
  test("says why, and counts the seconds to the next try; after that it says that it tries", async () => {
    const root = await show((run: Recording) => run.delay(limited(24)));
    expect(textOf(root.querySelector(".ak-status"))).toBe("Rate limited");
    expect(textOf(bar(root))).toMatch(/^Rate limited, next try in 2[34] s \(try 2 of 4\)\. Rate limit reached/);
    await settle(10_000);
    expect(textOf(bar(root))).toMatch(/next try in 1[34] s/);
    expect(buttons(bar(root)!)).toEqual(["Try now", "Stop"]);
    await settle(15_000);
    expect(textOf(bar(root))).toMatch(/^Rate limited, trying again, [12] s \(try 2 of 4\)\. Rate limit reached/);
    expect(buttons(bar(root)!)).toEqual([]);
  });
});

const QUEUED = "run_queued";

/** The first run of a conversation, and another that was asked for behind it. */
function queue(run: Recording, more: object = {}): Recording {
  return run.send({
    type: "run",
    run_id: QUEUED,
    run: { ...run.view, run_id: QUEUED, prompt: "And now a table.", status: "queued", ...more },
  });
}

/** A second cell's output, which shows the run that waits. */
async function second(): Promise<HTMLElement> {
  const root = view(runtime.recording!, QUEUED);
  await settle();
  return root;
}

const ahead = (root: HTMLElement): string =>
  root.querySelector("[data-role=ahead]")?.textContent?.replaceAll(/\s+/g, " ") ?? "";
const LONG = "Plot body mass by species, with one colour for each island, and say what stands out in two sentences.";

describe("a run that waits for its turn", () => {
  test("says behind which run, and that this one waits for you", async () => {
    await show((run) => queue(asks(run)), { prompt: `\u202E<b>${LONG}` });
    const root = await second();
    expect(ahead(root)).toMatch(/^Behind U\+202E<b>Plot body mass by species, .*…, which waits for you\./);
    expect(root.querySelector("[data-role=ahead] i")?.getAttribute("title")).toContain(LONG);
    expect(root.querySelector(".ak-status")?.textContent).toBe("Queued");
    expect(buttons(root.querySelector("[data-role=ahead]")!)).toEqual(["Show here", "Stop it and go on"]);
  });

  test("shows the cards of the run ahead, live, which can be answered here, until it begins itself", async () => {
    await show((run) => queue(asks(run)), { prompt: "First." });
    const root = await second();
    expect(root.querySelectorAll("[data-tool-call-id]")).toHaveLength(0);
    await press(root, "Show here");
    await press(card(root, "t1"), "Approve");
    expect(decisions()).toMatchObject([{ approval_id: "apr_t1", approved: true }]);
    await happens((run) => run.answer("t1", true).start("t1", "run_python", { code: "1" }));
    expect(card(root, "t1").dataset["state"]).toBe("executing");
    expect(ahead(root)).toContain("which is running");
    await press(root, "Hide");
    expect(root.querySelectorAll("[data-tool-call-id]")).toHaveLength(0);
    await press(root, "Show here");
    await happens((run) => queue(run.finish(), { status: "running" }));
    expect(ahead(root)).toBe("");
    expect(root.querySelectorAll(".ak-run")).toHaveLength(1);
    expect(root.querySelector(".ak-status")?.textContent).toBe("Running");
  });
});
