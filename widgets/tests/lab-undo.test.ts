import { expect, it } from "vitest";
import { type FileChange, offersOf } from "../lab/src/changes";

const change = (approval_id: string, more: Partial<FileChange> = {}): FileChange => ({
  approval_id,
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
  expect(offers.map(({ approvalId, button }) => [approvalId, button])).toEqual([
    ["c", "Undo write_file newU+202E.md"],
    ["a", "Undo write_file a.md"],
  ]);
  expect(offers[0]?.words).toBe("Removes the file again.");
  expect(offers[1]?.words).toMatch(/^Puts back the file of \d\d:01:20/);
});

it("has no button for what can't be undone, and says why", () => {
  expect(offersOf("run_1", [change("a", { state: "changed" })])).toEqual([
    { approvalId: "a", button: null, words: "a.md was changed since. Undo would lose that, so it is not offered." },
  ]);
  expect(offersOf("run_1", [change("a", { state: "undone" })])[0]).toMatchObject({
    button: null,
    words: "Undone: a.md is as it was before. The model is told.",
  });
});
