import { describe, expect, test } from "vitest";
import { editable, prettyJson, shownCall } from "../src/text/arguments";
import { limit, sentence, spent, wholeSeconds } from "../src/text/format";
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

describe("Edit", () => {
  test("opens on the code and sends the whole arguments", () => {
    const edit = editable("run_shell", '{"command":"ls","timeout":5}');
    expect(edit.text).toBe("ls");
    expect(edit.rebuild("pwd")).toEqual({ command: "pwd", timeout: 5 });
  });

  test("opens on JSON for any other tool, and sends its text", () => {
    const edit = editable("drop_rows", '{"id":12345678901234567890}');
    expect(edit.rebuild(edit.text)).toContain("12345678901234567890");
  });
});

test("a clock that ticks has no tenths, and a limit is a round number", () => {
  expect([wholeSeconds(999), wholeSeconds(102_000), wholeSeconds(3_700_000)]).toEqual([
    "0\u00a0s",
    "1\u00a0min 42\u00a0s",
    "1\u00a0h 1\u00a0min",
  ]);
  expect(limit(200_000)).toBe("200k");
});

test.each([
  [{}, "1.2k in · 340 out"],
  [{ cost: 0.0042 }, "1.2k in · 340 out · $0.004"],
  [{ cost: 0.0042, cost_is_partial: true }, "1.2k in · 340 out · ≥ $0.004"],
  [{ cost: 0.0042, cost_is_reported: true }, "1.2k in · 340 out · $0.004 by the service"],
  [{ estimated: true, cost: 0.0042 }, "about 1.2k in · 340 out · $0.004"],
  [{}, "Cost nothing", true],
])("what a run has spent, with %j: %s", (more, words, recorded = false) => {
  const usage = {
    ...{ input_tokens: 1_234, output_tokens: 340, total_tokens: 1_574, tool_calls: 0, steps: 1, cached_tokens: 0 },
    ...{ cache_write_tokens: 0, reasoning_tokens: 0, cost: null, cost_is_partial: false, cost_is_reported: false },
    ...{ estimated: false, seconds: 0, ...more },
  };
  expect(spent({ usage, recorded }).join(" · ")).toBe(words);
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

test.each([
  ["Look", "Look."],
  ["Look. (Or ask.)", "Look. (Or ask.)"],
])("%j ends as a sentence does", (text, said) => expect(sentence(text)).toBe(said));
