import { EditorView } from "@codemirror/view";
import { describe, expect, test } from "vitest";
import { accessibleName, button, buttons, card, decisions, happens, key, PlayedSocket, press, settle, show, usePage, type Recording } from "./page";

usePage();

const PYTHON = { code: "orders = orders.drop_duplicates()\norders.shape" };
const asks = (run: Recording): Recording => run.ask("t1", "run_python", PYTHON);
const runs = (run: Recording): Recording => asks(run).answer("t1", true).start("t1", "run_python", PYTHON);
const shown = (root: HTMLElement, id = "t1"): { state: string | undefined; text: string; buttons: string[] } => {
  const one = card(root, id);
  return { state: one.dataset["state"], text: (one.textContent ?? "").replaceAll(/\s+/g, " "), buttons: buttons(one) };
};

function write(place: Element, text: string): void {
  const view = EditorView.findFromDOM(place.querySelector<HTMLElement>(".cm-editor")!)!;
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
}

describe("each state says what is known, and has no dead button", () => {
  const cases: [string, (run: Recording) => unknown, string, string[]][] = [
    ["proposed", (run) => run.propose("t1", "run_python", null), "Preparing", []],
    ["invalid", (run) => run.propose("t1", "write_file", {}).end("t1", "write_file", "invalid", { reason: "path is missing" }), "path is missing", []],
    ["awaiting_approval", asks, "Waiting for you", ["Approve", "Deny", "Edit", "Always allow"]],
    ["approved", (run) => asks(run).answer("t1", true), "Approved, next in line", ["Cancel"]],
    ["executing", runs, "Running", ["Cancel"]],
    ["success", (run) => runs(run).end("t1", "run_python", "success", { duration_ms: 300 }), "Done0.3 s", []],
    ["error", (run) => runs(run).output("t1", 0, { kind: "error", text: "KeyError: 'a'" }).end("t1", "run_python", "error"), "KeyError: 'a'", ["Run again"]],
    ["denied", (run) => asks(run).answer("t1", false, { reason: "Keep it." }).end("t1", "run_python", "denied"), "Nothing ran.", []],
    ["cancelled", (run) => runs(run).end("t1", "run_python", "cancelled", { reason: "By you." }), "what ran before that stays", []],
    ["unknown", (run) => runs(run).end("t1", "run_python", "unknown"), "It may have finished, run in part, or not run at all. Look before you choose.", ["Run again", "Continue"]],
    ["superseded", (run) => asks(run).end("t1", "run_python", "superseded"), "Replacedby your new message", []],
    ["expired", (run) => asks(run).end("t1", "run_python", "expired"), "Expirednothing ran", []],
  ];
  test.each(cases)("%s", async (state, build, words, names) => {
    const root = await show(build);
    expect(shown(root)).toMatchObject({ state, buttons: names });
    expect(shown(root).text).toContain(words);
  });

  test("a card is found by its role, its name and its id", async () => {
    const root = await show(asks);
    expect(card(root, "t1").getAttribute("role")).toBe("group");
    expect(accessibleName(card(root, "t1"))).toBe("Tool call: run_python");
  });
});

describe("a waiting call", () => {
  test("shows the whole call, and approves exactly that", async () => {
    const root = await show(asks);
    expect(card(root, "t1").querySelector(".ak-code")?.textContent).toBe(PYTHON.code);
    await press(card(root, "t1"), "Approve");
    expect(decisions()).toEqual([{ type: "approval_response", approval_id: "apr_t1", digest: "digest_t1", approved: true }]);
    expect(shown(root).buttons).toEqual([]);
  });

  test("shows hidden characters in its code as markers", async () => {
    const root = await show((run) => run.ask("t1", "run_python", { code: 'role = "user\u202e"' }));
    expect(card(root, "t1").querySelector(".ak-hidden")?.textContent).toBe("U+202E");
  });

  test("warns before the buttons", async () => {
    const root = await show((run) => run.ask("t1", "run_python", PYTHON, { warnings: [{ title: "Writes files:", detail: "a.csv" }] }));
    expect(shown(root).text).toContain("Writes files: a.csvFound by reading the code; it may do more.");
    const text = shown(root).text;
    expect(text.indexOf("Writes files")).toBeLessThan(text.indexOf("Approve"));
  });

  test("a second click on Deny sends the denial with its reason", async () => {
    const root = await show(asks);
    await press(card(root, "t1"), "Deny");
    const field = card(root, "t1").querySelector("textarea")!;
    expect(card(root, "t1").querySelector(`label[for="${field.id}"]`)?.textContent).toBe("Reason");
    field.value = "Keep the raw table.";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    await press(card(root, "t1"), "Deny");
    expect(decisions()[0]).toMatchObject({ approved: false, reason: "Keep the raw table.", digest: "digest_t1" });
  });

  test("a changed call is sent whole, with the digest that was shown", async () => {
    const root = await show((run) => run.ask("t1", "run_shell", { command: "ls", timeout: 5 }));
    await press(card(root, "t1"), "Edit");
    write(card(root, "t1"), "ls -l\npwd");
    await settle();
    expect(shown(root).text).toContain("Editing, 2 of 2 lines changed");
    await press(card(root, "t1"), "Approve");
    expect(decisions()[0]).toMatchObject({ approved: true, edited_input: { command: "ls -l\npwd", timeout: 5 }, digest: "digest_t1" });
  });

  test("an edit that was put back is an approval", async () => {
    const root = await show(asks);
    await press(card(root, "t1"), "Edit");
    write(card(root, "t1"), "other()");
    await press(card(root, "t1"), "Reset");
    await press(card(root, "t1"), "Approve");
    expect(decisions()[0]).not.toHaveProperty("edited_input");
  });

  test("an edit that is refused says why on the card, and stays in the editor", async () => {
    const root = await show((run) => run.ask("t1", "drop_rows", { table: "orders" }));
    await press(card(root, "t1"), "Edit");
    write(card(root, "t1"), '{"tabel": 1}');
    await press(card(root, "t1"), "Approve");
    PlayedSocket.last.say({ type: "error", seq: 3, conversation_id: "", run_id: null, timestamp: "", code: "INVALID_FORMAT", message: "table is missing", tool_call_id: "t1", details: {} });
    await settle(500);
    expect(shown(root).text).toContain("table is missing.");
    expect(card(root, "t1").querySelector(".cm-content")?.textContent).toContain("tabel");
    expect(shown(root).buttons).toContain("Approve");
  });

  describe("Always allow", () => {
    const choices = (root: HTMLElement): string[] => [...card(root, "t1").querySelectorAll("[role=dialog] label")].map((label) => label.textContent ?? "");
    const choose = async (root: HTMLElement, words: string): Promise<void> => {
      [...card(root, "t1").querySelectorAll<HTMLElement>("[role=dialog] label")].find((label) => label.textContent?.startsWith(words))!.click();
      await settle();
    };
    const rule = (root: HTMLElement): string | null | undefined => card(root, "t1").querySelector(".ak-rule")?.textContent;

    test("offers what and where, from narrow to wide, and shows the rule as it will be saved", async () => {
      const root = await show((run) => run.ask("t1", "write_file", { path: "exports/a.csv", content: "b" }, { scopes: ["once", "conversation", "project"] }));
      await press(card(root, "t1"), "Always allow");
      expect(choices(root)).toEqual([
        "This exact callsame path, same content",
        "CSV files in exports/any content",
        "Every write_file callany file, anywhere",
        "This conversationuntil it is deleted",
        "This projectevery notebook in this one’s folder",
      ]);
      expect(rule(root)).toBe("allow write_file where digest is digest_t1 in this conversation");
      await choose(root, "CSV files");
      await choose(root, "This project");
      expect(rule(root)).toBe('allow write_file where path matches "exports/*.csv" in this project');
      await press(card(root, "t1"), "Save rule and approve");
      expect(decisions()[0]).toMatchObject({ approved: true, scope: "project", digest: "digest_t1", rule: 'allow write_file where path matches "exports/*.csv"' });
    });

    test("is not there where nothing is offered", async () => {
      const root = await show((run) => run.ask("t1", "write_file", { path: "a" }, { rules: [] }));
      expect(shown(root).buttons).toEqual(["Approve", "Deny", "Edit"]);
      await key(card(root, "t1"), "l");
      expect(card(root, "t1").querySelector("[role=dialog]")).toBeNull();
    });
  });

  test("a decision that came second changes nothing and says so", async () => {
    const root = await show(asks);
    await press(card(root, "t1"), "Deny");
    await happens((run) => run.answer("t1", true, { decided_by: "ana" }));
    PlayedSocket.last.say({ type: "error", seq: 3, conversation_id: "", run_id: null, timestamp: "", code: "CONFLICT", message: "Approved in another tab by ana", tool_call_id: "t1", details: {} });
    await settle();
    expect(shown(root)).toMatchObject({ state: "approved" });
    expect(shown(root).text).toContain("Already decided. Approved in another tab by ana. Your click changed nothing.");
  });

  test("a recorded demo is marked as one", async () => {
    const root = await show(asks, { recorded: true });
    expect(shown(root).text).toContain("Recorded demo");
    expect(root.querySelector(".ak-header")?.textContent).toContain("Recorded demo: no model is called");
  });
});

describe("a call that changes a file", () => {
  const diff = (text: string, language = "diff"): object => ({ preview: { kind: "diff", language, text } });
  const rows = (root: HTMLElement): string[] => [...card(root, "t1").querySelectorAll("[data-role=diff] > span")].map((row) => [...row.children].map((part) => part.textContent).join("|") || (row.textContent ?? ""));
  const WRITE = { path: "a.md", content: "one\nnew\n" };

  test("shows how the file would change, with the file's line numbers", async () => {
    const root = await show((run) => run.ask("t1", "write_file", WRITE, diff("--- a.md\n+++ a.md\n@@ -4,2 +4,2 @@\n one\n-old\n+new")));
    expect(rows(root)).toEqual(["@@ -4,2 +4,2 @@", "4|4| |one", "5||−|old", "|5|+|new"]);
    expect(shown(root).text).toContain("path: a.md");
  });

  test("says that a file is new only where there is none", async () => {
    const root = await show((run) => run.ask("t1", "write_file", WRITE, diff("--- /dev/null\n+++ a.md\n@@ -0,0 +1,2 @@\n+one\n+new")));
    expect(rows(root)[0]).toBe("new file, 2 lines");
    const empty = await show((run) => run.ask("t1", "write_file", WRITE, diff("--- a.md\n+++ a.md\n@@ -0,0 +1,2 @@\n+one\n+new")));
    expect(rows(empty)[0]).toBe("@@ -0,0 +1,2 @@");
  });

  test("shows a piece without line numbers, which would say nothing of the file", async () => {
    const edit = { path: "a.md", old_text: "old", new_text: "new" };
    const root = await show((run) => run.ask("t1", "edit_file", edit, diff("--- a.md\n+++ a.md\n@@ -1 +1 @@\n-old\n+new", "piece")));
    expect(rows(root)).toEqual(["−|old", "+|new"]);
  });

  test("shows the diff of a file that was written unasked, and what it came to", async () => {
    const root = await show((run) => run.propose("t1", "write_file", WRITE).answer("t1", true, { by: "policy" }).start("t1", "write_file", WRITE, diff("--- a.md\n+++ a.md\n@@ -1,2 +1,2 @@\n one\n-old\n+new")).end("t1", "write_file", "success"));
    expect(rows(root)).toHaveLength(4);
    expect(shown(root).text).toContain("Done+1 −1");
  });
});

describe("Undo", () => {
  const WRITE = { path: "a.md", content: "new\n" };
  const preview = { kind: "diff", language: "diff", text: "--- a.md\n+++ a.md\n@@ -1 +1 @@\n-old\n+new" };
  const wrote = (undo: string | null) => (run: Recording): Recording =>
    run.ask("t1", "write_file", WRITE, { preview }).answer("t1", true).start("t1", "write_file", WRITE).end("t1", "write_file", "success", { undo });

  test("says which file it puts back, and does it once", async () => {
    const root = await show(wrote("2026-11-20T14:01:20Z"));
    expect(shown(root).text).toMatch(/UndoPuts back the file of \d\d:01:20\.Approved by you, /);
    await press(card(root, "t1"), "Undo");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_undo", tool_call_id: "t1" });
    expect(button(card(root, "t1"), "Undoing…").getAttribute("aria-disabled")).toBe("true");
    await happens((run) => run.send({ type: "tool_undone", tool_call_id: "t1", decided_by: null }));
    expect(shown(root).text).toContain("Undone. The file is as it was before. The model is told.");
    expect(shown(root).buttons).toEqual([]);
  });

  test("says that a new file is removed", async () => {
    expect(shown(await show(wrote(""))).text).toContain("UndoRemoves the file again.");
  });

  test("is gone once the file was changed by somebody else, and the card says so", async () => {
    const root = await show(wrote("2026-11-20T14:01:20Z"));
    await press(card(root, "t1"), "Undo");
    PlayedSocket.last.say({ type: "error", seq: 3, conversation_id: "", run_id: null, timestamp: "", code: "CONFLICT", message: "The file was changed since. Nothing was put back.", tool_call_id: "t1", details: {} });
    await settle();
    expect(shown(root).text).toContain("Not undone. The file was changed since. Nothing was put back.");
    expect(shown(root).buttons).toEqual([]);
  });

  test("is not there for what can't be put back, nor when the run is over", async () => {
    expect(shown(await show(wrote(null))).buttons).toEqual([]);
    const over = await show((run) => wrote("")(run).finish());
    expect(shown(over).buttons).toEqual([]);
  });
});

describe("several waiting calls", () => {
  const three = (run: Recording): unknown => asks(run).ask("t2", "run_shell", { command: "ls" }).ask("t3", "write_file", { path: "a", content: "b" }, { warnings: [{ title: "Writes files:", detail: "a" }] });

  test("can be answered together, each by the id and digest on screen", async () => {
    const root = await show(three);
    expect(root.textContent).toContain("3 calls are waiting for you. One writes files.");
    await press(root, "Approve all");
    expect(decisions().map((one) => [one.approval_id, one.digest, one.approved])).toEqual([1, 2, 3].map((n) => [`apr_t${n}`, `digest_t${n}`, true]));
  });

  test("can be denied together", async () => {
    const root = await show(three);
    await press(root, "Deny all");
    expect(decisions().map((one) => one.approved)).toEqual([false, false, false]);
  });

  test("a call that is being edited is left out", async () => {
    const root = await show(three);
    await press(card(root, "t1"), "Edit");
    await press(root, "Approve all");
    expect(decisions().map((one) => one.approval_id)).toEqual(["apr_t2", "apr_t3"]);
  });

  test("can be answered differently", async () => {
    const root = await show(three);
    await press(card(root, "t2"), "Approve");
    await settle(400);
    await press(card(root, "t1"), "Deny");
    await press(card(root, "t1"), "Deny");
    expect(decisions().map((one) => [one.approval_id, one.approved])).toEqual([["apr_t2", true], ["apr_t1", false]]);
  });

  test("only one has the full frame", async () => {
    const root = await show(three);
    expect(root.querySelectorAll("[data-turn=you]")).toHaveLength(3);
    expect(root.querySelectorAll("[data-current]")).toHaveLength(1);
    card(root, "t3").focus();
    await settle();
    expect(card(root, "t3").hasAttribute("data-current")).toBe(true);
  });

  test("no bar stands above a single call", async () => {
    const root = await show(asks);
    expect(buttons(root)).not.toContain("Approve all");
  });
});

describe("a call that runs", () => {
  test("redraws a progress line in place", async () => {
    const root = await show(runs);
    await happens((run) => run.output("t1", 0, { name: "stdout", text: "start\n10%" }).output("t1", 1, { name: "stdout", text: "\r90%" }));
    expect(card(root, "t1").querySelector("[data-role=stdout]")?.textContent).toBe("start\n90%");
  });

  test("counts its seconds", async () => {
    const root = await show(runs);
    await settle(60_000);
    expect(shown(root).text).toMatch(/Running1 min \d+ s/);
  });

  test("is next in line while the user's own cell runs", async () => {
    const root = await show((run) => runs(run).waits("t1", "run_python", PYTHON, 9));
    expect(shown(root)).toMatchObject({ state: "executing", buttons: ["Cancel"] });
    expect(shown(root).text).toContain("Approved, next in line");
    expect(shown(root).text).toContain("Your cell [9] is running. This call starts when it ends.");
    await happens((run) => run.output("t1", 0, { name: "stdout", text: "1" }));
    expect(shown(root).text).toContain("Running");
    expect(shown(root).text).not.toContain("Your cell");
  });

  test("can be cancelled alone", async () => {
    const root = await show(runs);
    await press(card(root, "t1"), "Cancel");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_cancel", tool_call_id: "t1" });
    expect(shown(root).buttons).toEqual(["Cancelling…"]);
    expect(button(card(root, "t1"), "Cancelling…").getAttribute("aria-disabled")).toBe("true");
  });

  test("folds its code, which is one click away", async () => {
    const root = await show(runs);
    expect(card(root, "t1").querySelector(".ak-code")).toBeNull();
    card(root, "t1").querySelector<HTMLElement>(".ak-fold")!.click();
    await settle();
    expect(card(root, "t1").querySelector(".ak-code")?.textContent).toBe(PYTHON.code);
  });
});

describe("a call that has ended", () => {
  const plot = { kind: "display" as const, data: { "image/png": "iVBORw0KGgo=", "text/plain": "<Figure>" } };
  const open = (root: HTMLElement, id: string): string | null | undefined => card(root, id).querySelector(".ak-head")?.getAttribute("aria-expanded");

  test("folds when the next step starts", async () => {
    const root = await show((run) => run.did("t1", "run_python", PYTHON, 5, [{ name: "stdout", text: "42" }]));
    expect(open(root, "t1")).toBe("true");
    await happens((run) => run.say("So it is 42."));
    expect(open(root, "t1")).toBe("false");
  });

  test("stays open while another call of its step goes on", async () => {
    const root = await show((run) => run.propose("t2", "run_python", PYTHON).did("t1", "run_python", PYTHON, 5, [{ name: "stdout", text: "42" }]).ask("t2", "run_python", PYTHON));
    await happens((run) => run.answer("t2", true).start("t2", "run_python", PYTHON).waits("t2", "run_python", PYTHON, 4).output("t2", 0, { kind: "error", text: "KeyError: 1" }).end("t2", "run_python", "error"));
    expect([open(root, "t1"), open(root, "t2")]).toEqual(["true", "true"]);
  });

  test("stays open with a plot of the last step", async () => {
    const root = await show((run) => run.did("t1", "run_python", PYTHON, 5, [plot]).did("t2", "run_python", PYTHON, 5, [plot]));
    await happens((run) => run.say("Here they are.").finish());
    expect(card(root, "t2").querySelector("img")?.getAttribute("src")).toBe("data:image/png;base64,iVBORw0KGgo=");
    expect([open(root, "t1"), open(root, "t2")]).toEqual(["false", "true"]);
  });

  test("stays as a person has put it", async () => {
    const root = await show((run) => run.did("t1", "run_python", PYTHON, 5, [{ name: "stdout", text: "42" }]).say("So."));
    card(root, "t1").querySelector<HTMLElement>(".ak-head")!.click();
    await settle();
    expect(open(root, "t1")).toBe("true");
    await happens((run) => run.did("t2", "run_python", PYTHON, 5).say("And."));
    expect(open(root, "t1")).toBe("true");
  });

  test("keeps its error in sight when it folds", async () => {
    const root = await show((run) => runs(run).output("t1", 0, { kind: "error", text: "Traceback\nKeyError: 'a'" }).end("t1", "run_python", "error").say("I try again."));
    expect(open(root, "t1")).toBe("false");
    expect(shown(root).text).toContain("KeyError: 'a'");
  });

  test("says who denied it and why", async () => {
    const root = await show(asks);
    await press(card(root, "t1"), "Deny");
    await press(card(root, "t1"), "Deny");
    await happens((run) => run.answer("t1", false, { reason: "Keep it.", decided_by: "4f2a" }).end("t1", "run_python", "denied"));
    expect(shown(root).text).toMatch(/By you, \d\d:\d\d:\d\d: Keep it\. Nothing ran\./);
  });

  test("a policy's denial names the rule", async () => {
    const root = await show((run) => run.propose("t1", "run_shell", { command: "curl x" }).answer("t1", false, { by: "policy", reason: 'By policy: deny run_shell where command matches "curl *".' }).end("t1", "run_shell", "denied"));
    expect(shown(root).text).toContain('By policy: deny run_shell where command matches "curl *". Nothing ran.');
  });
});

describe("Run again", () => {
  const failed = (run: Recording): Recording => runs(run).end("t1", "run_python", "error", { tool_result: "No." });
  const lost = (run: Recording): Recording => runs(run).end("t1", "run_python", "unknown", { reason: "The server restarted while this call was running." });

  test("has the model ask for the call again, once", async () => {
    const root = await show(failed);
    expect(shown(root).text).toContain("Run againAsks you first.The model was told and may try another way.");
    await press(card(root, "t1"), "Run again");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_retry", tool_call_id: "t1" });
    expect(shown(root).buttons).toEqual([]);
    expect(shown(root).text).toContain("You asked the model to run it again.");
  });

  test("does not say that it asks first where it would not", async () => {
    expect(shown(await show((run) => failed(run), { mode: "allow" })).text).not.toContain("Asks you first");
    const byRule = (run: Recording): unknown => run.propose("t1", "run_python", PYTHON).answer("t1", true, { by: "policy" }).start("t1", "run_python", PYTHON).end("t1", "run_python", "error", { tool_result: "No." });
    expect(shown(await show(byRule)).text).not.toContain("Asks you first");
  });

  test("is not there when the run is over, is stopping or the line is lost", async () => {
    const over = await show((run) => failed(run).say("I give up.").finish());
    card(over, "t1").querySelector<HTMLElement>(".ak-head")!.click();
    await settle();
    expect(shown(over).buttons).toEqual([]);
    const stopping = await show(failed);
    await press(stopping, "Stop");
    expect(shown(stopping).buttons).toEqual([]);
    const offline = await show(failed);
    PlayedSocket.refuse = true;
    PlayedSocket.last.drop();
    await settle();
    expect(shown(offline).buttons).toEqual([]);
  });

  test("an unknown outcome is the person's turn until the model has gone on", async () => {
    const root = await show(lost);
    expect(card(root, "t1").dataset).toMatchObject({ turn: "you", current: "" });
    expect(root.querySelector(".ak-status")!.textContent).toBe("Waiting for you");
    await happens((run) => run.say("I look first."));
    expect(card(root, "t1").dataset["turn"]).toBeUndefined();
    expect(shown(root).buttons).toEqual(["Run again"]);
    expect(shown(root).text).toContain("The model was told that the outcome is unknown.");
  });

  test("Continue tells the model of an unknown outcome, once, and every page shows that it was said", async () => {
    const root = await show(lost);
    await press(card(root, "t1"), "Continue");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_continue", tool_call_id: "t1" });
    expect(shown(root).buttons).toEqual([]);
    await happens((run) => run.send({ type: "tool_answered", tool_call_id: "t1", answer: "continue", decided_by: "ana" }));
    expect(shown(root).text).toContain("The model was told that the outcome is unknown.");
    expect(card(root, "t1").dataset["turn"]).toBeUndefined();
    expect(root.querySelector(".ak-status")!.textContent).toBe("Running");
  });

  test("Run again on an unknown outcome is asked for once, also where another page asked", async () => {
    const root = await show(lost);
    await press(card(root, "t1"), "Run again");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_retry", tool_call_id: "t1" });
    expect(shown(root).buttons).toEqual([]);
    await happens((run) => run.send({ type: "tool_answered", tool_call_id: "t1", answer: "retry", decided_by: null }));
    expect(shown(root).text).toContain("You asked the model to run it again. It asks you first.");
  });
});

describe("a question", () => {
  const question = (run: Recording): unknown => run.propose("q1", "ask_user", { question: "Which copy?", choices: ["First", "Larger"] }).start("q1", "ask_user", { question: "Which copy?", choices: ["First", "Larger"] });

  test("is answered in one's own words or by a choice", async () => {
    const root = await show(question);
    expect(shown(root, "q1").text).toContain("Waiting for your answer");
    expect(button(card(root, "q1"), "Send").getAttribute("aria-disabled")).toBe("true");
    const field = card(root, "q1").querySelector("textarea")!;
    field.value = "Neither.";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    await settle();
    await press(card(root, "q1"), "Send");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_result", tool_call_id: "q1", output: "Neither." });
  });

  test("may be skipped", async () => {
    const root = await show(question);
    await press(card(root, "q1"), "Skip");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_cancel", tool_call_id: "q1" });
  });
});

describe("the run", () => {
  test("shows the prompt before anything has arrived", async () => {
    PlayedSocket.refuse = true;
    const root = await show();
    expect(root.textContent).toContain("prompt");
    expect(root.querySelector(".ak-run")?.getAttribute("data-status")).toBe("starting");
  });

  test("is stopped once", async () => {
    const root = await show(asks);
    await press(root, "Stop");
    expect(PlayedSocket.sent.at(-1)).toMatchObject({ type: "cancel" });
    expect(buttons(root.querySelector(".ak-header")!)).toEqual(["Stopping…"]);
    await happens((run) => run.end("t1", "run_python", "cancelled", { reason: "By you." }).finish("cancelled"));
    expect(buttons(root.querySelector(".ak-header")!)).toEqual([]);
    expect(root.querySelector(".ak-status")?.textContent).toBe("Stopped");
    expect(shown(root)).toMatchObject({ state: "cancelled", buttons: [] });
  });

  test("keeps its cards when it has ended", async () => {
    const root = await show((run) => run.did("t1", "run_python", PYTHON, 5).say("Done.").finish());
    expect(root.querySelector(".ak-run")?.getAttribute("data-status")).toBe("complete");
    expect(shown(root).state).toBe("success");
    expect(root.querySelector("[data-role=answer]")?.textContent).toContain("Done.");
  });

  test("always shows the policy in force, with its rules one click away", async () => {
    const root = await show(() => undefined, { rules: [{ rule_id: "1", scope: "project", tool_name: "run_shell", text: "allow run_shell" }] });
    const badge = root.querySelector<HTMLElement>(".ak-badge")!;
    expect(accessibleName(badge)).toBe("Policy: Asks before acting, 1 always-allow rule");
    badge.click();
    await settle();
    expect(root.textContent).toContain("allow run_shell in this project");
  });

  const RULE = { rule_id: "rule_1", scope: "user", tool_name: "run_shell", text: "allow run_shell" };

  test("lets a rule be removed, once", async () => {
    const root = await show(() => undefined, { rules: [RULE] });
    root.querySelector<HTMLElement>(".ak-badge")!.click();
    await settle();
    await press(root, "Remove");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "rule_remove", rule_id: "rule_1" });
    expect(button(root, "Removing…").getAttribute("aria-disabled")).toBe("true");
    await happens((run) => run.send({ type: "run", run: { ...run.view, policy: { mode: "ask", rules: [] } } }));
    expect(root.textContent).toContain("No always-allow rule is in force.");
    expect(accessibleName(root.querySelector(".ak-badge")!)).toBe("Policy: Asks before acting");
  });

  test("that has ended shows its rules without a button", async () => {
    const root = await show((run) => run.say("Done.").finish(), { rules: [RULE] });
    root.querySelector<HTMLElement>(".ak-badge")!.click();
    await settle();
    expect(root.textContent).toContain("allow run_shell in all my notebooks");
    expect(buttons(root)).toEqual([]);
  });

  test("says what went wrong, what it means and nothing twice", async () => {
    const root = await show((run) => run.send({ type: "error", code: "LLM_ERROR", message: "gpt-5.2 returned 429, too many requests", tool_call_id: null, details: {} }).finish("error"));
    expect(root.querySelector("[role=alert]")?.textContent).toBe("The model did not answer. gpt-5.2 returned 429, too many requests. Nothing is lost.");
  });

  test("shows that the model thinks until it speaks, folded", async () => {
    const think = (run: Recording, content: string): Recording => run.send({ type: "reasoning", message_id: "m", content });
    const root = await show((run) => think(run, "The duplicates "));
    await happens((run) => think(run, "are exports."));
    const line = root.querySelector<HTMLElement>(".ak-thinking button")!;
    expect([line.textContent, line.getAttribute("aria-expanded")]).toEqual(["Thinking", "false"]);
    line.click();
    await settle();
    expect(root.querySelector(".ak-thinking .ak-say")?.textContent).toBe("The duplicates are exports.");
    await happens((run) => run.say("They are exports."));
    expect(root.querySelector(".ak-thinking")).toBeNull();
  });

  test("tells a screen reader of changes of state, and not of the past", async () => {
    const root = await show((run) => run.did("t0", "run_python", PYTHON, 5));
    const said = (): string | null | undefined => root.querySelector(".ak-sr")?.textContent;
    expect(said()).toBe("");
    await settle(1_000);
    await happens((run) => run.say("Some tokens").ask("t1", "run_python", PYTHON));
    expect(said()).toBe("run_python is waiting for you.");
    await happens((run) => run.finish());
    expect(said()).toBe("The agent has answered.");
  });
});

describe("a run whose model did not answer", () => {
  const failed = (run: Recording): Recording => {
    const error = { code: "LLM_ERROR" as const, message: "gpt-5.2 returned 429, too many requests." };
    run.send({ type: "error", ...error, tool_call_id: null, details: {} });
    run.view = { ...run.view, error } as typeof run.view;
    return run.finish("error");
  };

  test("can be tried again, once a click, and goes on where it was", async () => {
    const root = await show((run) => failed(run.did("t1", "run_python", PYTHON, 5)));
    await press(root, "Try again");
    expect(PlayedSocket.sent.at(-1)).toMatchObject({ type: "run_retry" });
    expect(buttons(root)).not.toContain("Try again");
    await happens((run) => {
      run.view = { ...run.view, status: "running", error: null, ended_at: null } as typeof run.view;
      run.send({ type: "run", run: run.view }).say("It is 42.");
    });
    expect(root.querySelector(".ak-status")!.textContent).toBe("Running");
    expect(buttons(root)).not.toContain("Try again");
    expect(root.querySelector("[data-role=answer]")!.textContent).toContain("It is 42.");
  });

  test("says why it can't be, and offers nothing where the line is lost or something else was asked for", async () => {
    const root = await show(failed);
    await press(root, "Try again");
    PlayedSocket.last.say({ type: "error", seq: 1, conversation_id: "", run_id: null, timestamp: "", code: "CONFLICT", message: "This run can't be tried again: something else was asked for since.", tool_call_id: null, details: { run_id: root.querySelector("[data-run-id]")!.getAttribute("data-run-id") } });
    await settle();
    expect(root.textContent).toContain("something else was asked for since");
    PlayedSocket.refuse = true;
    PlayedSocket.last.drop();
    await settle();
    expect(buttons(root)).not.toContain("Try again");
  });
});
