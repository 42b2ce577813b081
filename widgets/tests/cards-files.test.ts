import { describe, expect, test } from "vitest";
import { shown } from "./cards";
import { button, card, happens, PlayedSocket, press, settle, show, usePage, type Recording } from "./page";

usePage();

describe("a call that changes a file", () => {
  const diff = (text: string, language = "diff"): object => ({ preview: { kind: "diff", language, text } });
  const rows = (root: HTMLElement): string[] =>
    [...card(root, "t1").querySelectorAll("[data-role=diff] > span")].map(
      (row) => [...row.children].map((part) => part.textContent).join("|") || (row.textContent ?? ""),
    );
  const WRITE = { path: "a.md", content: "one\nnew\n" };

  test("shows how the file would change, with the file's line numbers", async () => {
    const root = await show((run) =>
      run.ask("t1", "write_file", WRITE, diff("--- a.md\n+++ a.md\n@@ -4,2 +4,2 @@\n one\n-old\n+new")),
    );
    expect(rows(root)).toEqual(["@@ -4,2 +4,2 @@", "4|4| |one", "5||−|old", "|5|+|new"]);
    expect(shown(root).text).toContain("path: a.md");
  });

  test("says that a file is new only where there is none", async () => {
    const root = await show((run) =>
      run.ask("t1", "write_file", WRITE, diff("--- /dev/null\n+++ a.md\n@@ -0,0 +1,2 @@\n+one\n+new")),
    );
    expect(rows(root)[0]).toBe("new file, 2 lines");
    const empty = await show((run) =>
      run.ask("t1", "write_file", WRITE, diff("--- a.md\n+++ a.md\n@@ -0,0 +1,2 @@\n+one\n+new")),
    );
    expect(rows(empty)[0]).toBe("@@ -0,0 +1,2 @@");
  });

  test("shows a piece without line numbers, which would say nothing of the file", async () => {
    const edit = { path: "a.md", old_text: "old", new_text: "new" };
    const root = await show((run) =>
      run.ask("t1", "edit_file", edit, diff("--- a.md\n+++ a.md\n@@ -1 +1 @@\n-old\n+new", "piece")),
    );
    expect(rows(root)).toEqual(["−|old", "+|new"]);
  });

  test("says what a file is that would be replaced, before its diff", async () => {
    const preview = {
      kind: "diff",
      language: "diff",
      text: "--- a.md\n+++ a.md\n@@ -1 +1 @@\n-old\n+new",
      facts: ["Replaces 360 kB, 4,000 lines.", "Makes the folder x\u202e/."],
      left_out: "",
    };
    const root = await show((run) => run.ask("t1", "write_file", WRITE, { preview }));
    expect(shown(root).text).toMatch(/Replaces 360 kB, 4,000 lines\.Makes the folder xU\+202E\/\.@@ -1,1 \+1,1 @@/);
    expect(shown(root).text).not.toContain("All of the new content");
  });

  test("says what a long diff leaves out, and has all of it at hand", async () => {
    const preview = {
      kind: "diff",
      language: "diff",
      text: "--- a.md\n+++ a.md\n@@ -1 +1 @@\n-old\n+one\n\\ 3,999 more lines are added",
      facts: [],
      left_out: "And 37 more changes.",
    };
    const root = await show((run) => run.ask("t1", "write_file", WRITE, { preview }));
    expect(rows(root).at(-1)).toBe("3,999 more lines are added");
    expect(shown(root).text).toContain("And 37 more changes.");
    const all = button(card(root, "t1"), "All of the new content, 2 lines");
    expect(all.getAttribute("aria-expanded")).toBe("false");
    await press(card(root, "t1"), "All of the new content, 2 lines");
    expect(card(root, "t1").querySelector("[data-role=code]")?.textContent).toBe("one\nnew");
    const edit = { path: "a.md", old_text: "o", new_text: "0", replace_all: true };
    const edited = await show((run) => run.ask("t1", "edit_file", edit, { preview }));
    await press(card(edited, "t1"), "All that the call replaces");
    expect(card(edited, "t1").querySelector("[data-role=code]")?.textContent).toContain('"replace_all": true');
  });

  test("counts no lines of a diff that is not shown whole", async () => {
    const preview = {
      kind: "diff",
      language: "diff",
      text: "--- a.md\n+++ a.md\n@@ -1 +1 @@\n-old\n+new",
      facts: [],
      left_out: "And 37 more changes.",
    };
    const root = await show((run) =>
      run
        .ask("t1", "write_file", WRITE, { preview })
        .answer("t1", true)
        .start("t1", "write_file", WRITE)
        .end("t1", "write_file", "success"),
    );
    expect(shown(root).text).not.toContain("+1 −1");
  });

  test("shows the diff of a file that was written unasked, and what it came to", async () => {
    const root = await show((run) =>
      run
        .propose("t1", "write_file", WRITE)
        .answer("t1", true, { by: "policy" })
        .start("t1", "write_file", WRITE, diff("--- a.md\n+++ a.md\n@@ -1,2 +1,2 @@\n one\n-old\n+new"))
        .end("t1", "write_file", "success"),
    );
    expect(rows(root)).toHaveLength(4);
    expect(shown(root).text).toContain("Done+1 −1");
  });
});

describe("Undo", () => {
  const WRITE = { path: "a.md", content: "new\n" };
  const preview = { kind: "diff", language: "diff", text: "--- a.md\n+++ a.md\n@@ -1 +1 @@\n-old\n+new" };
  const wrote =
    (undo: string | null) =>
    (run: Recording): Recording =>
      run
        .ask("t1", "write_file", WRITE, { preview })
        .answer("t1", true)
        .start("t1", "write_file", WRITE)
        .end("t1", "write_file", "success", { undo });

  test("says which file it puts back, does it once, and undoes that", async () => {
    const root = await show(wrote("2026-11-20T14:01:20Z"));
    expect(shown(root).text).toMatch(/UndoPuts back the file of \d+:01:20\s?\w*\.Approved by you, /);
    await press(card(root, "t1"), "Undo");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_undo", tool_call_id: "t1" });
    expect(button(card(root, "t1"), "Undoing…").getAttribute("aria-disabled")).toBe("true");
    await happens((run) => run.send({ type: "tool_undone", tool_call_id: "t1", redo: false, decided_by: null }));
    expect(shown(root).text).toContain("Undone. The file is as it was before. The model is told.");
    expect(shown(root).buttons).toEqual(["Redo"]);
    await press(card(root, "t1"), "Redo");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_undo", tool_call_id: "t1", redo: true });
    await happens((run) => run.send({ type: "tool_undone", tool_call_id: "t1", redo: true, decided_by: null }));
    expect(shown(root).buttons).toEqual(["Undo"]);
    await happens((run) => run.send({ type: "tool_undone", tool_call_id: "t1", redo: false, decided_by: "ana" }));
    expect(shown(root).buttons, "undone elsewhere").toEqual(["Redo"]);
  });

  test("of the whole run is offered by the last of several changes, and begins with that", async () => {
    const root = await show((run) =>
      wrote("")(run)
        .ask("t2", "write_file", WRITE, { preview })
        .answer("t2", true)
        .start("t2", "write_file", WRITE)
        .end("t2", "write_file", "success", { undo: "" }),
    );
    expect(() => button(card(root, "t1"), "Undo this run")).toThrow();
    await press(card(root, "t2"), "Undo this run");
    expect(PlayedSocket.sent.slice(-2).map((sent) => "tool_call_id" in sent && sent.tool_call_id)).toEqual([
      "t2",
      "t1",
    ]);
  });

  test("says that a new file is removed", async () => {
    expect(shown(await show(wrote(""))).text).toContain("UndoRemoves the file again.");
  });

  test("is gone once the file was changed by somebody else, and the card says so", async () => {
    const root = await show(wrote("2026-11-20T14:01:20Z"));
    await press(card(root, "t1"), "Undo");
    PlayedSocket.last.say({
      type: "error",
      seq: 3,
      conversation_id: "",
      run_id: null,
      timestamp: "",
      code: "CONFLICT",
      message: "The file was changed since. Nothing was put back.",
      tool_call_id: "t1",
      details: {},
    });
    await settle();
    expect(shown(root).text).toContain("Not done. The file was changed since. Nothing was put back.");
    expect(shown(root).buttons).toEqual([]);
  });

  test("is not there for what can't be put back, nor when the run is over", async () => {
    expect(shown(await show(wrote(null))).buttons).toEqual([]);
    const over = await show((run) => wrote("")(run).finish());
    expect(shown(over).buttons).toEqual([]);
  });
});
