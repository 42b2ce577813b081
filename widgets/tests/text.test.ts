import { describe, expect, test, afterEach, beforeEach, vi } from "vitest";
import { prettyJson, shownCall } from "../src/text/arguments";
import { visible } from "../src/text/invisible";
import { errorLine, splitTraceback } from "../src/text/traceback";

/** What a preview has beside its text. */
const PLAIN = { facts: [], left_out: "", cell: null, base: "" };

describe("characters that can't be seen", () => {
  test.each([
    ["a bidirectional override", "a\u202eb", "aU+202Eb"],
    ["a zero-width space", "ad\u200bmin", "adU+200Bmin"],
    ["a space that is none", "a\u00a0b", "aU+00A0b"],
    ["an escape", "a\u001b[31mb", "aU+001B[31mb"],
  ])("%s appears as its number", (_what, text, shown) => {
    expect(visible(text)).toBe(shown);
  });
});

describe("what a card shows of a call", () => {
  test("code in full, and every other argument beside it", () => {
    const shown = shownCall("run_shell", '{"command":"ls\\n-l","timeout":600}', null);
    expect(shown).toMatchObject({ text: "ls\n-l", language: "shell", rest: [["timeout", "600"]] });
  });

  test("the arguments themselves where a preview does not come from them", () => {
    const preview = { ...PLAIN, kind: "code" as const, language: "python", text: "harmless()" };
    expect(shownCall("custom", '{"code":"harmful()"}', preview).text).toContain("harmful()");
  });

  test("JSON laid out, with every digit of a large number", () => {
    expect(prettyJson('{"a":[1,{"b":12345678901234567890}],"c":{},"d":"x, {y}"}')).toBe(
      '{\n  "a": [\n    1,\n    {\n      "b": 12345678901234567890\n    }\n  ],\n  "c": {},\n  "d": "x, {y}"\n}',
    );
  });
});

describe("a traceback", () => {
  const library = "File ~/lib/python3.12/site-packages/pandas/core/base.py:244, in get\n--> 244 raise KeyError(key)";
  const text = `KeyError   Traceback (most recent call last)\nCell In[9], line 2\n----> 2 x["a"]\n\n${library}\n\nKeyError: 'a'`;

  test("as the kernel renders it keeps the frames of the call and of own files, and sets the library's aside", () => {
    const rendered = [
      "Traceback (most recent call last):",
      '  File "pandas/core/indexes/base.py", line 3816, in get_loc',
      "    return self._engine.get_loc(casted_key)",
      "           ^^^^^^^^^^^^^^^",
      '  File "pandas/_libs/index.pyx", line 172, in pandas._libs.index.IndexEngine.get_loc',
      "KeyError: 'cost'",
      "",
      "The above exception was the direct cause of the following exception:",
      "",
      "Traceback (most recent call last):",
      '  File "run_python", line 3, in <module>',
      "    df['cost'].mean()",
      '  File "/home/ana/own.py", line 1, in mean',
      "    return x",
      '  File "pandas/core/frame.py", line 4330, in __getitem__',
      "    indexer = self.columns.get_loc(key)",
      "KeyError: 'cost'",
    ];
    const { own, frames } = splitTraceback(rendered.join("\n"));
    expect(frames).toBe(3);
    expect(own.split("\n")).toEqual([rendered[0], ...rendered.slice(5, 14), rendered[16]]);
  });

  test("is said in one line by its end", () => {
    expect(errorLine(text)).toBe("KeyError: 'a'");
  });
});

let linesOf: typeof import("../src/text/code").linesOf;

beforeEach(async () => {
  vi.resetModules(); // other tests may have had the parts come
  ({ linesOf } = await import("../src/text/code"));
});

afterEach(() => vi.restoreAllMocks());

test("code is plain until the highlighter is there, and coloured from then on", async () => {
  expect(linesOf("x = 1", "python")).toEqual([[{ text: "x = 1", classes: "" }]]);
  await vi.waitFor(() => expect(linesOf("x = 1", "python")[0]!.length).toBeGreaterThan(1));
});
