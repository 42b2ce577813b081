/** Groups of a run's items, which a browser leaves out when they are off screen. */
import { expect, test } from "vitest";
import { Groups } from "../src/run/cardGroups";
import type { Item } from "../src/state";
import { happens, settle, show, usePage } from "./page";

usePage();

const calls = (from: number, to: number): Item[] =>
  Array.from({ length: to - from }, (_, index) => ({ kind: "call", id: `c${from + index}` }));
const sizes = (groups: Groups, items: readonly Item[]): number[] => groups.of(items).map(({ items }) => items.length);
const cardOf = (root: HTMLElement, id: string): Element | null => root.querySelector(`[data-tool-call-id=${id}]`);

test("items fill one group after the other", () => {
  const groups = new Groups();
  expect(sizes(groups, [])).toEqual([]);
  expect(sizes(groups, calls(0, 10))).toEqual([10]);
  expect(sizes(groups, calls(0, 60))).toEqual([25, 25, 10]);
  expect(groups.of(calls(0, 60)).flatMap(({ items }) => items)).toEqual(calls(0, 60));
});

test("an item stays in its group, whatever comes or goes before it", () => {
  const groups = new Groups();
  const answer: Item = { kind: "answer", id: "m1" };
  const note: Item = { kind: "note", id: "n1", text: "Begun again.", detail: "" };
  expect(sizes(groups, [answer, ...calls(0, 60)])).toEqual([25, 25, 11]);
  expect(sizes(groups, calls(0, 60))).toEqual([24, 25, 11]);
  expect(sizes(groups, [answer, ...calls(0, 10), note, ...calls(10, 60)])).toEqual([26, 25, 11]);
  expect(sizes(groups, calls(24, 60))).toEqual([25, 11]);
  expect(sizes(groups, calls(24, 80))).toEqual([25, 25, 6]);
});

test("an answer that is taken back leaves the cards after it as they are", async () => {
  let begun = "";
  const root = await show((run) => {
    run.say("It begins.", false);
    for (let number = 0; number < 40; number += 1) run.did(`t${number}`, "run_python", { code: "1" }, 10);
    begun = run.frames.find((frame: { type: string }) => frame.type === "token").message_id;
  });
  await settle(500);
  const before = Array.from({ length: 40 }, (_, number) => cardOf(root, `t${number}`));
  expect(root.textContent).toContain("It begins.");
  await happens((run) => run.send({ type: "message", message_id: begun, role: "assistant", content: "" }));
  expect(root.textContent).not.toContain("It begins.");
  await happens((run) => run.ask("new", "run_python", { code: "1" }));
  expect(Array.from({ length: 40 }, (_, number) => cardOf(root, `t${number}`))).toEqual(before);
});

test("a group of folded calls is left out as one, and joined with the one before it", async () => {
  const root = await show((run) => {
    for (let number = 0; number < 60; number += 1) run.did(`t${number}`, "run_python", { code: "1" }, 10);
  });
  await settle(500);
  const groups = [...root.querySelectorAll<HTMLElement>(".ak-group")];
  const looks = groups.map(({ dataset, style }) => [
    "lines" in dataset,
    "joined" in dataset,
    style.getPropertyValue("--ak-lines"),
  ]);
  // The last call is open.
  expect(looks).toEqual([
    [true, false, "25"],
    [true, true, "25"],
    [false, true, ""],
  ]);
  (groups[0]!.querySelector(".ak-head") as HTMLElement).click();
  await settle();
  expect("lines" in groups[0]!.dataset).toBe(false);
});
