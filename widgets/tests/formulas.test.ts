// @vitest-environment jsdom
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { renderMarkdown, StreamingMarkdown } from "../src/text/markdown";

interface Case {
  readonly name: string;
  readonly text: string;
  readonly formulas: readonly { tex: string; display: boolean; refused?: boolean }[];
}

const { cases } = JSON.parse(readFileSync("../tests/formulas.json", "utf-8")) as { cases: Case[] };

function formulasOf(root: Element): { tex: string; display: boolean }[] {
  return [...root.querySelectorAll<HTMLElement>(".ak-formula")].map((element) => {
    const display = element.dataset.display !== undefined;
    const marks = display ? 2 : 1;
    return { tex: element.textContent.slice(marks, -marks), display };
  });
}

describe("formulas, money and code, as in the record", () => {
  test.each(cases.map((one) => [one.name, one] as const))("%s", (_name, { text, formulas }) => {
    const root = document.createElement("div");
    root.innerHTML = renderMarkdown(text);
    expect(formulasOf(root)).toEqual(
      formulas.filter((one) => !one.refused).map(({ tex, display }) => ({ tex, display })),
    );
    for (const { tex, display } of formulas.filter((one) => one.refused)) {
      const mark = display ? "$$" : "$";
      expect([...root.querySelectorAll("code")].map((code) => code.textContent)).toContain(`${mark}${tex}${mark}`);
    }
  });

  test.each(cases.map((one) => [one.name, one] as const))("letter by letter: %s", (_name, { text, formulas }) => {
    const root = document.createElement("div");
    const finished: Element[] = [];
    const stream = new StreamingMarkdown(root, (block) => finished.push(block));
    for (let at = 1; at <= text.length; at += 1) stream.show(text.slice(0, at));
    stream.show(text, true);
    expect(formulasOf(root)).toEqual(
      formulas.filter((one) => !one.refused).map(({ tex, display }) => ({ tex, display })),
    );
    expect(finished).toEqual([...root.children]);
  });

  test("a formula in a picture's description stays out of its element's attributes", () => {
    const root = document.createElement("div");
    root.innerHTML = renderMarkdown('![a $x onerror=alert(1) "y$ b](data:image/png;base64,AAAA) \ue0f00\ue0f1');
    for (const element of root.querySelectorAll("*"))
      expect(element.getAttributeNames().filter((name) => name.startsWith("on"))).toEqual([]);
    expect(root.querySelector(".ak-formula .ak-formula")).toBeNull();
  });

  test.each(["$a ", "${", "\\(", "\\({", "$$\n", "`$", "$a$", "\\[x", "\\[x\n", "$1 a", "$x\\!"])(
    "hostile text takes little time: %s",
    (text) => {
      const before = process.cpuUsage(); // whatever else the machine does
      renderMarkdown(text.repeat(20_000 / text.length));
      expect(process.cpuUsage(before).user).toBeLessThan(5_000_000);
    },
    120_000,
  );
});
