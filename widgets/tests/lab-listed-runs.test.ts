import { expect, it } from "vitest";
import { summary, waitingRuns } from "../lab/src/listedRuns";

const run = (
  waits_for: { kind: "approval" | "answer" | "outcome" | "budget" | "repeat" | "run"; tool_name?: string }[],
) => ({
  ...{ run_id: "run_1", conversation_id: "conv_1", prompt: "Look.", notebook: "a.ipynb", kernel_id: "k", cell_id: "c" },
  waits_for,
});

it("says what a run waits for", () => {
  const words = (...waits: Parameters<typeof run>[0]) => waitingRuns([run(waits)]).map((one) => one.words);
  expect(words({ kind: "approval", tool_name: "run_python" })).toEqual(["Waiting for you: run_python"]);
  expect(
    words(
      { kind: "outcome", tool_name: "run_shell" },
      { kind: "approval", tool_name: "write_file" },
      { kind: "budget" },
    ),
  ).toEqual(["Waiting for you: run_shell and 2 more"]);
  expect(words({ kind: "answer", tool_name: "ask_user" })).toEqual(["Waiting for you: a question"]);
  expect(words({ kind: "budget" })).toEqual(["Waiting for you: its budget"]);
});

it("leaves out runs that work, or wait for another run", () => {
  expect(waitingRuns([run([]), run([{ kind: "run" }])])).toEqual([]);
});

it("counts what waits in all notebooks", () => {
  const call = { kind: "approval", tool_name: "run_python" } as const;
  expect(summary(waitingRuns([]))).toBe("");
  expect(summary(waitingRuns([run([call])]))).toBe("1 call waits for you");
  expect(summary(waitingRuns([run([call, call]), run([call])]))).toBe("3 calls wait for you");
  expect(summary(waitingRuns([run([{ kind: "repeat" }])]))).toBe("1 paused run waits for you");
  expect(summary(waitingRuns([run([call]), run([{ kind: "budget" }])]))).toBe("1 call and 1 paused run wait for you");
});
