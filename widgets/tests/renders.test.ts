/** Which components render when a token comes. A conversation with many cards must stream as fast as an empty one. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { button, card, decisions, happens, key, onRender, PlayedSocket, runtime, settle, show, usePage } from "./page";
import type { Recording } from "./gallery/frames.js";

usePage();

const CARDS = 200;

let renders: string[] = [];
let stop = (): void => undefined;

beforeEach(() => {
  stop = onRender((name) => renders.push(name));
});
afterEach(() => stop());

/** A conversation with many finished cards, in which an answer has begun. */
async function longConversation(): Promise<HTMLElement> {
  const root = await show((run) => {
    for (let number = 0; number < CARDS; number += 1)
      run.did(`t${number}`, "run_python", { code: `print(${number})` }, 10);
    run.say("An earlier answer.").say("It begins.", false);
  });
  await settle(500); // it comes in slices
  renders = [];
  return root;
}

const answer = (root: HTMLElement): string =>
  [...root.querySelectorAll("[data-role=answer]")].at(-1)?.textContent?.trim() ?? "";

/** The tokens of a text that goes on with the answer at hand. */
function goesOn(run: Recording, text: string): void {
  const { message_id } = run.frames.findLast((frame: { type: string }) => frame.type === "token");
  for (const content of text.match(/\S+\s*/g) ?? []) run.send({ type: "token", message_id, content });
}

test("cards are counted when they do render", async () => {
  await longConversation();
  await happens((run) => run.ask("new", "run_python", { code: "1" }));
  expect(renders.filter((name) => name === "Card").length).toBeGreaterThan(0);
});

test("a folded call is a few components and elements, each of which renders once, however many there are", async () => {
  const root = await show((run) => {
    for (let number = 0; number < CARDS; number += 1)
      run.did(`t${number}`, "run_python", { code: `print(${number})` }, 10);
  });
  await settle(500);
  const folded = root.querySelectorAll("[data-tool-call-id][data-line]");
  expect(folded.length).toBe(CARDS - 1);
  const counts = new Map<string, number>();
  for (const name of renders) counts.set(name, (counts.get(name) ?? 0) + 1);
  const often = [...counts].filter(([, count]) => count > CARDS / 2);
  expect(often.map(([name]) => name).sort()).toEqual(["Card", "Head", "Memo(Card)"]);
  for (const [, count] of often) expect(count).toBeLessThan(CARDS + 5); // the last one is open
  expect(folded[0]!.querySelectorAll("*").length).toBeLessThanOrEqual(12);
});

test("a token renders the answer that is being written, and nothing else", async () => {
  const root = await longConversation();
  await happens((run) => goesOn(run, "And "));
  expect(answer(root)).toBe("It begins.And");
  expect(renders).toEqual(["Message", "Memo(Answer)", "Answer"]);
});

test("many tokens within a frame render once", async () => {
  const root = await longConversation();
  await happens((run) => goesOn(run, "word ".repeat(50)));
  expect(answer(root)).toBe(`It begins.${"word ".repeat(50).trim()}`);
  expect(renders.filter((name) => name === "Answer")).toHaveLength(1);
});

test("calls that follow each other are drawn five times a second, all of them; a word or a question does not wait", async () => {
  const root = await longConversation();
  const drawn = (): number => renders.filter((name) => name === "Items").length;
  const calls = async (from: number, to: number): Promise<void> => {
    for (let number = from; number < to; number += 1) {
      runtime.recording!.did(`fast${number}`, "run_python", { code: "1" }, 10);
      PlayedSocket.last.catchUp();
      await settle(10);
    }
  };
  await calls(0, 30);
  expect(drawn()).toBeLessThanOrEqual(3);
  await settle(200);
  expect(card(root, "fast29").dataset["state"]).toBe("success");

  await calls(30, 32);
  runtime.recording!.say("A word.");
  PlayedSocket.last.catchUp();
  await settle(20);
  expect(answer(root)).toBe("A word.");
  expect(card(root, "fast31").dataset["state"]).toBe("success");

  await calls(32, 34);
  runtime.recording!.ask("question", "run_python", { code: "1" });
  PlayedSocket.last.catchUp();
  await settle(20);
  expect(card(root, "question").dataset["state"]).toBe("awaiting_approval");
});

test("an answer is drawn before the next key or click is taken, which comes too soon for what is behind it", async () => {
  const root = await show((run) => {
    run.ask("t1", "run_python", { code: "1" }).ask("t2", "run_python", { code: "2" });
  });
  card(root, "t1").focus();
  button(card(root, "t1"), "Approve").click();
  await key(document.activeElement!, "a");
  expect(card(root, "t1").textContent).toContain("You chose Approve");
  expect(document.activeElement).toBe(card(root, "t2"));
  await settle(500);
  button(card(root, "t2"), "Approve").click();
  button(card(root, "t2"), "Deny").click();
  await settle();
  expect(decisions()).toMatchObject([{ approval_id: "apr_t1" }, { approval_id: "apr_t2", approved: true }]);
  expect(card(root, "t2").textContent).toContain("You chose Approve");
});

test("what came as the page was put into the background is shown there, and read out", async () => {
  const root = await longConversation();
  // A page in the background gets none of the frames that it has asked for.
  const frames = vi.spyOn(window, "requestAnimationFrame").mockImplementation(() => 0);
  const hidden = vi.spyOn(document, "hidden", "get").mockReturnValue(false);
  try {
    goesOn(runtime.recording!, "And ");
    PlayedSocket.last.catchUp();
    hidden.mockReturnValue(true);
    document.dispatchEvent(new Event("visibilitychange"));
    goesOn(runtime.recording!, "on.");
    PlayedSocket.last.catchUp();
    await settle(400);
    expect(answer(root)).toBe("It begins.And on.");
  } finally {
    frames.mockRestore();
    hidden.mockRestore();
  }
});

test("the answer is whole when it ends, and when something else happens in the same frame", async () => {
  const root = await longConversation();
  await happens((run) => {
    goesOn(run, "one two ");
    run.propose("late", "run_python", null);
    goesOn(run, "three ");
  });
  expect(answer(root)).toBe("It begins.one two three");
  expect(card(root, "late").dataset["state"]).toBe("proposed");
  await happens((run) => goesOn(run, "four"));
  expect(answer(root)).toBe("It begins.one two three four");
});

test("what the model thinks renders by itself, and only where it is shown", async () => {
  const root = await longConversation();
  const thinks = (content: string): Promise<void> =>
    happens((run) => run.send({ type: "reasoning", message_id: "m", content }));
  await thinks("Let me");
  renders = [];
  await thinks(" see");
  expect(renders).not.toContain("Thinking");
  root.querySelector<HTMLElement>(".ak-thinking button")?.click();
  await settle();
  renders = [];
  await thinks(" what");
  expect(root.querySelector(".ak-thinking")?.textContent).toContain("Let me see what");
  expect(renders).not.toContain("Items");
});

test("a card is not styled by what stands before it, or each card that is added would have all of them styled again", () => {
  const selectors = readFileSync(join(import.meta.dirname, "../src/styles.css"), "utf8").match(/[^{};]+(?=\{)/g) ?? [];
  const bySiblings = selectors.filter((one) =>
    /\.ak-card\S*\s*[+~]|[+~]\s*\.ak-card|\.ak-card\S*:(nth|first|last)/.test(one),
  );
  expect(bySiblings).toEqual([]);
});

test("lines below each other are joined, and what stands between them parts them", async () => {
  const root = await show((run) => {
    for (const id of ["a", "b"]) run.did(id, "run_python", { code: "1" }, 10);
    run.say("In between.");
    for (const id of ["c", "d", "e", "f"]) run.did(id, "run_python", { code: "1" }, 10);
  });
  await settle(100);
  const joined = (): (string | undefined)[] =>
    [...root.querySelectorAll<HTMLElement>("[data-joined]")].map((one) => one.dataset["toolCallId"]);
  expect(joined()).toEqual(["b", "d", "e"]); // the last one is open
  card(root, "d").querySelector<HTMLElement>(".ak-head")?.click();
  await settle();
  expect(joined()).toEqual(["b"]);
});

test("what moves for as long as a run goes on moves in steps: a smooth motion paints 60 frames a second", () => {
  const styles = readFileSync(join(import.meta.dirname, "../src/styles.css"), "utf8");
  const endless = styles.match(/animation:[^;]*\binfinite\b[^;]*;/g) ?? [];
  expect(endless.length).toBeGreaterThan(0);
  for (const animation of endless) expect(animation).toMatch(/steps\(/);
});
