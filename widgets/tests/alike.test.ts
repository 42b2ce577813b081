// @vitest-environment jsdom
/** What cards and records both make of a call is one table; tests/core/record/test_cards_and_records.py reads it, too. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { decidedBy } from "../src/card/statusLine";
import { emptyCall } from "../src/state/model";
import { decider } from "../src/state/reduce";
import { summary } from "../src/text/arguments";
import { duration, leftOut, money, tokens } from "../src/text/format";
import { ruleText, storedWords, titleOf } from "../src/text/words";

interface Cases {
  readonly summaries: readonly { tool: string; input: unknown; text: string }[];
  readonly titles: readonly { tool: string; summary: string; cell?: number; text: string }[];
  readonly rules: readonly { rule: string; text: string }[];
  readonly durations: readonly { ms: number; text: string }[];
  readonly deciders: readonly {
    by: "user" | "policy" | "script";
    name: string | null;
    edited: boolean;
    text: string;
  }[];
  readonly stored: readonly { cached_at: string; ended_at: string; text: string }[];
  readonly money: readonly { usd: number; text: string }[];
  readonly at_least: readonly { usd: number; text: string }[];
  readonly left_out: readonly { lines: number; characters: number; text: string }[];
  readonly tokens: readonly { count: number; text: string }[];
}

const cases = JSON.parse(readFileSync("../tests/cards_and_records.json", "utf-8")) as Cases;

test.each(cases.summaries)("the title of $tool $input is $text", ({ tool, input, text }) =>
  expect(summary(tool, JSON.stringify(input))).toBe(text),
);

test("a call whose arguments are still written has no title", () => expect(summary("run_python", null)).toBe(""));

test.each(cases.titles)("$tool $summary does: $text", ({ tool, summary: of, cell, text }) =>
  expect(titleOf(tool, of, cell)).toBe(text),
);

test.each(cases.rules)("$rule reads: $text", ({ rule, text }) => expect(ruleText(rule)).toBe(text));

test.each(cases.durations)("$ms ms are $text", ({ ms, text }) => expect(duration(ms)).toBe(text));

test.each(cases.stored)("an outcome of $cached_at at $ended_at is $text", ({ cached_at, ended_at, text }) =>
  expect(storedWords(cached_at, ended_at)).toBe(text),
);

test.each(cases.deciders)("$by $name: $text", ({ by, name, edited, text }) => {
  const call = { ...emptyCall("call_1", "run_python", 0), edited, decider: decider(by, name, false, false) };
  expect(decidedBy(call)?.toLowerCase()).toBe(text);
});

test.each(cases.money)("$usd dollars are $text", ({ usd, text }) => expect(money(usd)).toBe(text));

test.each(cases.at_least)("at least $usd dollars are $text", ({ usd, text }) => expect(money(usd, true)).toBe(text));

test.each(cases.left_out)("$lines lines and $characters characters: $text", ({ lines, characters, text }) =>
  expect(leftOut(lines, characters)).toBe(text),
);

test.each(cases.tokens)("$count tokens are $text", ({ count, text }) => expect(tokens(count)).toBe(text));
