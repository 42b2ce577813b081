import { describe, expect, test } from "vitest";
import { shown } from "./cards";
import { button, card, happens, PlayedSocket, press, refuse, show, usePage, type Recording } from "./page";

usePage();

const WRITE = { path: "a.md", content: "one\nnew\n" };
const HUNK = "@@ -1 +1 @@\n-old\n+new";
const diff = (text: string, more: object = {}, file = "a.md"): object => ({
  preview: { kind: "diff", language: "diff", text: `--- ${file}\n+++ a.md\n${text}`, ...more },
});
const wrote = (run: Recording, undo: string | null = null, id = "t1", extra = diff(HUNK)): Recording =>
  run
    .ask(id, "write_file", WRITE, extra)
    .answer(id, true)
    .start(id, "write_file", WRITE)
    .end(id, "write_file", "success", { undo });

describe("a call that changes a file", () => {
  const rows = (root: HTMLElement): string[] =>
    [...card(root, "t1").querySelectorAll("[data-role=diff] > span")].map(
      (row) => [...row.children].map((part) => part.textContent).join("|") || (row.textContent ?? ""),
    );

  test.each([
    [
      "with the file's line numbers",
      diff("@@ -4,2 +4,2 @@\n one\n-old\n+new"),
      "@@ -4,2 +4,2 @@ 4|4| |one 5||−|old |5|+|new",
    ],
    ["which is new", diff("@@ -0,0 +1,2 @@\n+one\n+new", {}, "/dev/null"), "new file, 2 lines |1|+|one |2|+|new"],
    ["a piece of which has no line numbers, which would say nothing", diff(HUNK, { language: "piece" }), "−|old +|new"],
  ])("shows how the file would change, %s", async (_, preview, lines) => {
    const root = await show((run) => run.ask("t1", "write_file", WRITE, preview));
    expect(rows(root).join(" ")).toBe(lines);
    expect(shown(root).text).toContain("path: a.md");
  });

  test("says what a file is that would be replaced, before its diff", async () => {
    const facts = ["Replaces 360 kB, 4,000 lines.", "Makes the folder x\u202e/."];
    const root = await show((run) => run.ask("t1", "write_file", WRITE, diff(HUNK, { facts, left_out: "" })));
    expect(shown(root).text).toMatch(/Replaces 360 kB, 4,000 lines\.Makes the folder xU\+202E\/\.@@ -1,1 \+1,1 @@/);
    expect(shown(root).text).not.toContain("All of the new content");
  });

  test("says what a long diff leaves out, and has all of it at hand", async () => {
    const long = diff(`${HUNK}\n\\ 3,999 more lines are added`, { facts: [], left_out: "And 37 more changes." });
    const root = await show((run) => run.ask("t1", "write_file", WRITE, long));
    expect(rows(root).at(-1)).toBe("3,999 more lines are added");
    expect(shown(root).text).toContain("And 37 more changes.");
    const all = button(card(root, "t1"), "All of the new content, 2 lines");
    expect(all.getAttribute("aria-expanded")).toBe("false");
    await press(card(root, "t1"), "All of the new content, 2 lines");
    expect(card(root, "t1").querySelector("[data-role=code]")?.textContent).toBe("one\nnew");
    const edit = { path: "a.md", old_text: "o", new_text: "0", replace_all: true };
    const edited = await show((run) => run.ask("t1", "edit_file", edit, long));
    await press(card(edited, "t1"), "All that the call replaces");
    expect(card(edited, "t1").querySelector("[data-role=code]")?.textContent).toContain('"replace_all": true');
    const done = await show((run) => wrote(run, null, "t1", long));
    expect(shown(done).text, "no count of lines that are not all shown").not.toContain("+1 −1");
  });

  test("shows the diff of a file that was written unasked, and what it came to", async () => {
    const root = await show((run) =>
      run
        .propose("t1", "write_file", WRITE)
        .answer("t1", true, { by: "policy" })
        .start("t1", "write_file", WRITE, diff("@@ -1,2 +1,2 @@\n one\n-old\n+new"))
        .end("t1", "write_file", "success"),
    );
    expect(rows(root)).toHaveLength(4);
    expect(shown(root).text).toContain("Done+1 −1");
  });
});

describe("Undo", () => {
  const AT = "2026-11-20T14:01:20Z";

  test("says which file it puts back, does it once, and undoes that", async () => {
    const root = await show((run) => wrote(run, AT));
    const undone = (redo: boolean, decided_by: string | null = null): Promise<void> =>
      happens((run) => run.send({ type: "tool_undone", tool_call_id: "t1", redo, decided_by }));
    expect(shown(root).text).toMatch(/UndoPuts back the file of \d+:01:20\s?\w*\.Approved by you, /);
    await press(card(root, "t1"), "Undo");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_undo", tool_call_id: "t1" });
    expect(button(card(root, "t1"), "Undoing…").getAttribute("aria-disabled")).toBe("true");
    await undone(false);
    expect(shown(root).text).toContain("Undone. The file is as it was before. The model is told.");
    expect(shown(root).buttons).toEqual(["Redo"]);
    await press(card(root, "t1"), "Redo");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_undo", tool_call_id: "t1", redo: true });
    await undone(true);
    expect(shown(root).buttons).toEqual(["Undo"]);
    await undone(false, "ana");
    expect(shown(root).buttons, "undone elsewhere").toEqual(["Redo"]);
  });

  test("of the whole run is offered by the last of several changes, and begins with that", async () => {
    const root = await show((run) => wrote(wrote(run, ""), "", "t2"));
    expect(shown(root, "t2").text).toContain("Removes the file again.");
    expect(() => button(card(root, "t1"), "Undo this run")).toThrow();
    await press(card(root, "t2"), "Undo this run");
    const [last, first] = PlayedSocket.sent.slice(-2);
    expect([last, first]).toMatchObject([{ tool_call_id: "t2" }, { tool_call_id: "t1" }]);
  });

  test("is gone once the file was changed by somebody else, and the card says so", async () => {
    const root = await show((run) => wrote(run, AT));
    await press(card(root, "t1"), "Undo");
    const message = "The file was changed since. Nothing was put back.";
    await refuse("CONFLICT", message, { tool_call_id: "t1", command_id: null });
    expect(shown(root).text).toContain(`Not done. ${message}`);
    expect(shown(root).buttons).toEqual([]);
  });
});
