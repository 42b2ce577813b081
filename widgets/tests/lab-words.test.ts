/** Words of the JupyterLab extension: what waits, what a kernel lacks, what can be undone. */
import { expect, it } from "vitest";
import { type ListedRun, standOf, summary, waitingRuns, wordsOfEnded, wordsOfOpen } from "../lab/src/listedRuns";
import { defaultsOf, readLacking, wordsOf } from "../lab/src/environment";
import { asksAgent, isPrompt } from "../lab/src/prompts";
import { allOf, type Change, offersOf } from "../lab/src/changes";

const BEGAN = "2026-11-27T12:00:00Z";

const run = (waits_for: ListedRun["waits_for"], fields: Partial<ListedRun> = {}): ListedRun => ({
  ...{ run_id: "run_1", conversation_id: "conv_1", status: "running", prompt: "Look." },
  ...{ notebook: "a.ipynb", kernel_id: "k", cell_id: "c", started_at: BEGAN },
  usage: { cost: null, cost_is_partial: false },
  ...{ waits_for, shown: false },
  ...fields,
});

it("says what a run waits for", () => {
  const words = (...waits: ListedRun["waits_for"]) => waitingRuns([run(waits)]).map((one) => one.words);
  expect(words({ kind: "approval", tool_name: "run_python" })).toEqual(["Waiting for you: Run Python"]);
  expect(
    words(
      { kind: "outcome", tool_name: "run_shell" },
      { kind: "approval", tool_name: "write_file" },
      { kind: "budget" },
    ),
  ).toEqual(["Waiting for you: Run a command and 2 more"]);
  expect(words({ kind: "answer", tool_name: "ask_user" })).toEqual(["Waiting for you: a question"]);
  expect(words({ kind: "budget" })).toEqual(["Waiting for you: its budget"]);
});

it("counts what waits in all notebooks", () => {
  const call = { kind: "approval", tool_name: "run_python" } as const;
  expect(summary(waitingRuns([]))).toBe("");
  expect(summary(waitingRuns([run([call])]))).toBe("1 call waits for you");
  expect(summary(waitingRuns([run([call, call]), run([call])]))).toBe("3 calls wait for you");
  expect(summary(waitingRuns([run([{ kind: "repeat" }])]))).toBe("1 paused run waits for you");
  expect(summary(waitingRuns([run([call]), run([{ kind: "budget" }])]))).toBe("1 call and 1 paused run wait for you");
});

it("says how a run stands, how long it takes and what it has cost", () => {
  const now = Date.parse(BEGAN) + 65_000;
  const ended = { ended_at: "2026-11-27T12:00:02.100Z", usage: { cost: 0.004, cost_is_partial: false } };
  expect(standOf(run([]), now)).toEqual(["Running", "1\u00a0min 5\u00a0s"]);
  expect(standOf(run([{ kind: "run" }], { status: "queued" }), now)[0]).toBe("Waits for another run");
  expect(standOf(run([{ kind: "budget" }]), now)[0]).toBe("Waiting for you: its budget");
  expect(standOf(run([], { status: "complete", ...ended }), now)).toEqual(["Done", "2.1\u00a0s", "$0.004"]);
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

const change = (approval_id: string, more: Partial<Change> = {}): Change => ({
  approval_id,
  conversation_id: "con_1",
  run_id: "run_1",
  tool_name: "write_file",
  path: "a.md",
  state: "as_left",
  changed_at: "2026-11-20T14:01:20Z",
  ...more,
});

it("offers to undo what a run changed, the last change first", () => {
  const offers = offersOf("run_1", [
    change("a"),
    change("b", { run_id: "run_2" }),
    change("c", { path: "new\u202e.md", changed_at: "" }),
  ]);
  expect(offers.map(({ path, button }) => [path, button])).toEqual([
    ["approvals/c/undo", "Undo: Write newU+202E.md"],
    ["approvals/a/undo", "Undo: Write a.md"],
  ]);
  expect(offers[0]?.words).toBe("Removes the file again.");
  expect(offers[1]?.words).toMatch(/^Puts back the file of \d+:01:20/);
});

it("offers to undo a whole run where several of its changes can be undone", () => {
  const cell = change("b", { tool_name: "edit_cell", path: "cell:c1" });
  expect(allOf("run_1", [change("a"), cell])).toMatchObject({
    path: "conversations/con_1/runs/run_1/undo",
    button: "Undo this run",
  });
  expect(allOf("run_1", [change("a", { state: "undone" }), cell])).toBeNull();
  const both = [change("a", { state: "undone" }), { ...cell, state: "undone" as const }];
  expect(allOf("run_1", both)).toMatchObject({
    path: "conversations/con_1/runs/run_1/redo",
    button: "Redo the changes of this run",
  });
  expect(offersOf("run_1", [cell])[0]).toMatchObject({
    button: "Undo: Edit a cell",
    words: expect.stringMatching(/^Puts back the cell of /),
  });
});
