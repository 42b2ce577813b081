import { afterEach, beforeEach, expect, it } from "vitest";
import { decorateRecords } from "../lab/src/records";
import { INSERT_CELLS, type InsertCells } from "../src/ui/events";

const code = (text: string, cell = ""): string =>
  `<details><pre><code class="agent-code ${cell}">${text}</code></pre></details>`;
const RECORD = `<div class="agent-record"><details>
  ${code("second = 2", "agent-cell-2")}${code("1 / 0")}${code("first &lt; 1\nif x:\n    y", "agent-cell-1")}${code("tenth", "agent-cell-10")}
</details></div>`;
let inserted: string[][];

const insert = (event: Event): void => {
  inserted.push([...(event as CustomEvent<InsertCells>).detail.cells]);
  event.preventDefault();
};

beforeEach(() => {
  inserted = [];
  document.body.innerHTML = `<div class="jp-OutputArea-output">${RECORD}</div>`;
  document.addEventListener(INSERT_CELLS, insert);
});
afterEach(() => document.removeEventListener(INSERT_CELLS, insert));

const buttons = (name: string): HTMLButtonElement[] =>
  [...document.querySelectorAll("button")].filter((one) => one.textContent === name);

it("gives each code a button that asks for a cell, and the run one for all", () => {
  decorateRecords(document.body);
  expect(buttons("Insert below as a cell")).toHaveLength(4);
  buttons("Insert below as a cell")[1]!.click();
  buttons("Insert all as cells")[0]!.click();
  expect(inserted).toEqual([["1 / 0"], ["first < 1\nif x:\n    y", "second = 2", "tenth"]]);
});

it("shows the time of a run as the reader's clock has it, also where the sanitizer has taken the attribute", () => {
  document.body.innerHTML = `<div class="jp-OutputArea-output"><div class="agent-record"><p>
    <time datetime="2026-11-26T19:53:09Z">26 November 2026, 19:53 UTC</time>
    <time>26 November 2026, 19:53 UTC</time><time>long ago</time></p></div></div>`;
  decorateRecords(document.body);
  const [moment, bare, odd] = [...document.querySelectorAll("time")];
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  expect(moment?.textContent).toBe(format.format(new Date("2026-11-26T19:53:09Z")));
  expect(moment?.title).toBe("26 November 2026, 19:53 UTC");
  expect(bare?.textContent).toBe(moment?.textContent);
  expect(odd?.textContent).toBe("long ago");
});
