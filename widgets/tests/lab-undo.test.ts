import { expect, it } from "vitest";
import { allOf, type Change, offersOf } from "../lab/src/changes";

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

it("has no button for what can't be undone, and says why", () => {
  expect(offersOf("run_1", [change("a", { state: "changed" })])).toEqual([
    {
      path: "approvals/a/undo",
      button: null,
      words: "a.md was changed since. Undo would lose that, so it is not offered.",
    },
  ]);
  expect(offersOf("run_1", [change("a", { state: "undone" })])[0]).toMatchObject({
    path: "approvals/a/redo",
    button: "Redo: Write a.md",
    words: "Undone: a.md is as it was before. The model is told.",
  });
  const inserted = change("b", { tool_name: "insert_cell", path: "cell:c1", changed_at: "", state: "undone" });
  expect(offersOf("run_1", [inserted])[0]?.words).toBe("Undone: the cell is removed again. The model is told.");
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
