import { expect, it } from "vitest";
import { defaultsOf, readLacking, wordsOf } from "../lab/src/environment";
import { asksAgent, cellsPrompt, explainPrompt, fixPrompt, isPrompt, outputPrompt } from "../lab/src/prompts";
import { wordsOfEnded, wordsOfOpen } from "../lab/src/listedRuns";

it("makes prompts whose mentions end where the line or a blank does", () => {
  const prompts = [fixPrompt("a-1"), explainPrompt("a-1"), outputPrompt("a-1"), cellsPrompt(["a-1"])];
  for (const prompt of prompts) expect(prompt).toMatch(/^%%agent\n.*@cell:a-1(\n|$)/);
  expect(cellsPrompt(["a", "b", "c"])).toBe("%%agent\nAbout @cell:a, @cell:b and @cell:c\n");
});

it.each([
  ["%%agent\nHello?", true, true],
  ["  %%agent --wait\nHello?", true, true],
  ["x = 1\n%agent stats", true, false],
  ["%%agents\nHello?", false, false],
  ["agent = 1  # %%agent", false, false],
])("knows whether %j asks an agent, and whether it is a prompt", (source, asks, prompt) => {
  expect(asksAgent(source)).toBe(asks);
  expect(isPrompt(source)).toBe(prompt);
});

const said = {
  missing: true,
  error: "ModuleNotFoundError: No module named 'agent_kernel'",
  executable: "/opt/lab/bin/python",
  prefix: "/opt/lab",
  command: "/opt/lab/bin/python -m pip install .",
};

it("says which environment lacks the package, and why another can't load it", () => {
  const lacking = readLacking(`a start-up file's word\n${JSON.stringify(said)}\n`);
  expect(lacking).toEqual(said);
  expect(wordsOf(said)).toContain("/opt/lab/bin/python, in the environment /opt/lab. Install it there, from a clone:");
  expect(wordsOf({ ...said, missing: false, error: "ImportError: too old" })).toContain(
    "It said: ImportError: too old",
  );
});

it("sends the settings that differ from what there is without them", () => {
  expect(defaultsOf({ model: "", policy: "default", effort: "default", wait: false })).toEqual({});
  expect(defaultsOf({ model: "m", policy: "plan", effort: "low", wait: true, notifications: true })).toEqual({
    ...{ model: "m", policy: "plan", effort: "low" },
    wait: "true",
  });
  expect(defaultsOf({ model: 7, wait: "always" })).toEqual({});
});

it("names the run that a cell came too early for", () => {
  expect(wordsOfOpen({ waits_for: [{ kind: "approval" }] }, 2)).toBe("The run in [2] waits for you ·");
  expect(wordsOfOpen({ waits_for: [{ kind: "run" }] }, 2)).toBe("The run in [2] has not ended ·");
  expect(wordsOfEnded("cancelled", null)).toBe("The run above ended without an answer ·");
  expect(wordsOfEnded("complete", 2)).toBe("The run in [2] has ended ·");
});
