import { afterEach, expect, test } from "vitest";
import { INSERT_CELLS, type InsertCells } from "../src/ui/events";
import { asks, PYTHON } from "./cards";
import { buttons, card, press, show, usePage } from "./page";

usePage();
let stop: () => void = () => undefined;
afterEach(() => stop());

/** An application whose extension takes cells, or has none around the output. */
function extension(takes: boolean): string[][] {
  const taken: string[][] = [];
  const answer = (event: Event): void => {
    const { cells } = (event as CustomEvent<InsertCells>).detail;
    if (cells.length > 0 && !takes) return;
    if (cells.length > 0) taken.push([...cells]);
    event.preventDefault();
  };
  document.addEventListener(INSERT_CELLS, answer);
  stop = () => document.removeEventListener(INSERT_CELLS, answer);
  return taken;
}

test("without an extension a card offers no cell", async () => {
  expect(buttons(card(await show(asks), "t1"))).not.toContain("Insert below as a cell");
});

test("a card's code goes below as it is shown, and decides nothing", async () => {
  const taken = extension(true);
  const root = await show(asks);
  await press(card(root, "t1"), "Insert below as a cell");
  expect(taken).toEqual([[PYTHON.code]]);
  expect(card(root, "t1").dataset["state"]).toBe("awaiting_approval");
});
