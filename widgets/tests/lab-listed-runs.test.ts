import { expect, it } from "vitest";
import { byNotebook, type ListedRun, standOf, summary, waitingRuns } from "../lab/src/listedRuns";

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

it("groups runs by notebook, those that wait first, then the newest", () => {
  const listed = [
    ["run_1", "a.ipynb"],
    ["run_2", "b.ipynb"],
    ["run_3", "a.ipynb"],
    ["run_4", null],
  ] as const;
  const runs = listed.map(([run_id, notebook]) => run([], { run_id, notebook }));
  const ids = (...first: string[]) =>
    byNotebook(runs, new Set(first)).map((one) => [one.notebook, ...one.runs.map(({ run_id: id }) => id)]);
  expect(ids()).toEqual([
    [null, "run_4"],
    ["a.ipynb", "run_3", "run_1"],
    ["b.ipynb", "run_2"],
  ]);
  expect(ids("run_1")).toEqual([
    ["a.ipynb", "run_1", "run_3"],
    [null, "run_4"],
    ["b.ipynb", "run_2"],
  ]);
});
