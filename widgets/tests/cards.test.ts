import { describe, expect, test } from "vitest";
import { asks, PYTHON, runs, shown, write } from "./cards";
import {
  accessibleName,
  button,
  card,
  decisions,
  fill,
  happens,
  key,
  PlayedSocket,
  press,
  refuse,
  settle,
  show,
  usePage,
  type Recording,
  loseLine,
} from "./page";

usePage();

describe("each state says what is known, and has no dead button", () => {
  const cases: [string, (run: Recording) => unknown, string, string[]][] = [
    ["proposed", (run) => run.propose("t1", "run_python", null), "Preparing", []],
    [
      "invalid",
      (run) => run.propose("t1", "write_file", {}).end("t1", "write_file", "invalid", { reason: "path is missing" }),
      "path is missing",
      [],
    ],
    ["awaiting_approval", asks, "Waiting for you", ["Approve", "Don’t ask again", "Deny", "Edit", "Always allow"]],
    ["approved", (run) => asks(run).answer("t1", true), "Approved, next in line", ["Cancel"]],
    ["executing", runs, "Running", ["Cancel"]],
    ["success", (run) => runs(run).end("t1", "run_python", "success", { duration_ms: 300 }), "Done0.3 s", []],
    [
      "error",
      (run) => runs(run).output("t1", 0, { kind: "error", text: "KeyError: 'a'" }).end("t1", "run_python", "error"),
      "KeyError: 'a'",
      ["Run again"],
    ],
    [
      "denied",
      (run) => asks(run).answer("t1", false, { reason: "Keep it." }).end("t1", "run_python", "denied"),
      "Nothing ran.",
      [],
    ],
    [
      "cancelled",
      (run) => runs(run).end("t1", "run_python", "cancelled", { reason: "By you." }),
      "what ran before that stays",
      [],
    ],
    [
      "unknown",
      (run) => runs(run).end("t1", "run_python", "unknown"),
      "It may have finished, run in part, or not run at all. Look before you choose.",
      ["Run again", "Continue"],
    ],
    ["superseded", (run) => asks(run).end("t1", "run_python", "superseded"), "Replacedby your new message", []],
    ["expired", (run) => asks(run).end("t1", "run_python", "expired"), "Expirednothing ran", []],
  ];
  test.each(cases)("%s", async (state, build, words, names) => {
    const root = await show(build);
    expect(shown(root)).toMatchObject({ state, buttons: names });
    expect(shown(root).text).toContain(words);
  });
});

describe("a waiting call", () => {
  test("shows the whole call, and approves exactly that", async () => {
    const root = await show(asks);
    expect(accessibleName(card(root, "t1"))).toBe("Tool call: run_python");
    expect(card(root, "t1").querySelector(".ak-code")?.textContent).toBe(PYTHON.code);
    await press(card(root, "t1"), "Approve");
    expect(decisions()).toEqual([
      { type: "approval_response", approval_id: "apr_t1", digest: "digest_t1", approved: true },
    ]);
    expect(shown(root).buttons).toEqual([]);
  });

  test("shows hidden characters in its code as markers, and warns before the buttons", async () => {
    const warnings = [{ title: "Writes files:", detail: "a.csv" }];
    const root = await show((run) => run.ask("t1", "run_python", { code: 'role = "user\u202e"' }, { warnings }));
    expect(card(root, "t1").querySelector(".ak-hidden")?.textContent).toBe("U+202E");
    expect(shown(root).text).toMatch(/Writes files: a\.csvFound by reading the code; it may do more\..*Approve/);
  });

  test("a second click on Deny sends the denial with its reason", async () => {
    const root = await show(asks);
    await press(card(root, "t1"), "Deny");
    const field = card(root, "t1").querySelector("textarea")!;
    expect(card(root, "t1").querySelector(`label[for="${field.id}"]`)?.textContent).toBe("Reason");
    await fill(field, "Keep the raw table.");
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
    expect(decisions()[0]).toMatchObject({
      approved: true,
      edited_input: { command: "ls -l\npwd", timeout: 5 },
      digest: "digest_t1",
    });
  });

  test("an edit that is refused says why on the card, and stays in the editor", async () => {
    const root = await show((run) => run.ask("t1", "drop_rows", { table: "orders" }));
    await press(card(root, "t1"), "Edit");
    write(card(root, "t1"), '{"tabel": 1}');
    await press(card(root, "t1"), "Approve");
    await refuse("INVALID_FORMAT", "table is missing", { tool_call_id: "t1" }, 500);
    expect(shown(root).text).toContain("table is missing.");
    expect(card(root, "t1").querySelector(".cm-content")?.textContent).toContain("tabel");
    expect(shown(root).buttons).toContain("Approve");
  });

  describe("Always allow", () => {
    const choices = (root: HTMLElement): string[] =>
      [...card(root, "t1").querySelectorAll("[role=dialog] label")].map((label) => label.textContent ?? "");
    const choose = async (root: HTMLElement, words: string): Promise<void> => {
      [...card(root, "t1").querySelectorAll<HTMLElement>("[role=dialog] label")]
        .find((label) => label.textContent?.startsWith(words))!
        .click();
      await settle();
    };
    const rule = (root: HTMLElement): string | null | undefined =>
      card(root, "t1").querySelector(".ak-rule")?.textContent;

    test("offers what and where, from narrow to wide, and shows the rule as it will be saved", async () => {
      const root = await show((run) =>
        run.ask("t1", "write_file", { path: "a.csv", content: "b" }, { scopes: ["once", "conversation", "project"] }),
      );
      await press(card(root, "t1"), "Always allow");
      expect(choices(root)).toEqual([
        "This exact callsame arguments",
        "Every write_file callany arguments",
        "This conversationuntil it is deleted",
        "This projectevery notebook in this one’s folder",
      ]);
      expect(rule(root)).toBe("allow write_file where digest is digest_t1 in this conversation");
      await choose(root, "Every write_file call");
      await choose(root, "This project");
      expect(rule(root)).toBe("allow write_file in this project");
      await press(card(root, "t1"), "Save rule and approve");
      expect(decisions()[0]).toMatchObject({
        approved: true,
        scope: "project",
        digest: "digest_t1",
        rule: "allow write_file",
      });
    });

    test("is beside what is not asked again in this run, from narrow to wide, and never the exact call", async () => {
      const root = await show((run) => run.ask("t1", "run_python", { code: "1" }));
      await press(card(root, "t1"), "Don’t ask again");
      expect(choices(root)).toEqual(["Every run_python callany arguments", "Every callof every tool, within walls"]);
      expect(rule(root)).toBe("allow run_python in this run");
      await press(card(root, "t1"), "Approve, and don’t ask again");
      expect(decisions()[0]).toMatchObject({
        approved: true,
        scope: "run",
        digest: "digest_t1",
        rule: "allow run_python",
      });
    });
  });

  test("a decision that came second changes nothing and says so", async () => {
    const root = await show(asks);
    await press(card(root, "t1"), "Deny");
    await happens((run) => run.answer("t1", true, { decided_by: "ana" }));
    const message = "Already decided: approved, by ana, 2026-11-20T14:03:02.000Z.";
    await refuse("CONFLICT", message, { tool_call_id: "t1" });
    expect(shown(root)).toMatchObject({ state: "approved" });
    expect(shown(root).text).toMatch(
      /Already decided\. Approved, by ana, \d+:03:02\s?\w*\. Your click changed nothing\./,
    );
  });

  test.each([
    ["demo", "Recorded demo", "Recorded demo: no model is called"],
    ["replay:sum.jsonl", "Recorded answers", "Recorded answers of sum.jsonl: no model is called"],
  ])("the recorded answers of %s are marked as such", async (model, tag, said) => {
    const root = await show(asks, { recorded: true, model });
    expect(card(root, "t1").querySelector(".ak-tag")?.textContent).toBe(tag);
    expect(root.querySelector(".ak-header .ak-tag")?.textContent).toBe(said);
  });
});

describe("several waiting calls", () => {
  const three = (run: Recording): unknown =>
    asks(run)
      .ask("t2", "run_shell", { command: "ls" })
      .ask("t3", "write_file", { path: "a", content: "b" }, { warnings: [{ title: "Writes files:", detail: "a" }] });

  test.each([
    ["Approve all", true],
    ["Deny all", false],
  ])("can be answered together, each by the id and digest on screen: %s", async (name, approved) => {
    const root = await show(three);
    expect(root.textContent).toContain("3 calls are waiting for you. One writes files.");
    await press(root, name);
    expect(decisions().map((one) => [one.approval_id, one.digest, one.approved])).toEqual(
      [1, 2, 3].map((n) => [`apr_t${n}`, `digest_t${n}`, approved]),
    );
  });

  test("a call that is being edited is left out", async () => {
    const root = await show(three);
    await press(card(root, "t1"), "Edit");
    await press(root, "Approve all");
    expect(decisions().map((one) => one.approval_id)).toEqual(["apr_t2", "apr_t3"]);
  });
});

describe("a question", () => {
  const question = (run: Recording): unknown =>
    run.question("q1", { question: "Which copy?", choices: ["First", "Larger"] });

  test("is answered in one's own words or by a choice, or skipped", async () => {
    const root = await show(question);
    expect(shown(root, "q1").text).toContain("Waiting for your answer");
    expect(button(card(root, "q1"), "Send").getAttribute("aria-disabled")).toBe("true");
    await fill(card(root, "q1").querySelector("textarea")!, "Neither.");
    await press(card(root, "q1"), "Send");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_result", tool_call_id: "q1", output: "Neither." });
    await press(card(await show(question), "q1"), "Skip");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_cancel", tool_call_id: "q1" });
  });

  test.each(["text", "password"] as const)("of code is a field for a line: %s", async (line) => {
    const asked = { question: "Token:", line };
    const root = await show((run) => run.question("q1", asked));
    const field = card(root, "q1").querySelector("input")!;
    expect(field.type).toBe(line);
    expect(card(root, "q1").textContent).toContain(line === "password" ? "it is kept nowhere" : "interrupts the code");
    await key(field, "Enter");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_result", tool_call_id: "q1", output: "" });
  });
});

describe("a call that runs", () => {
  test("counts its seconds", async () => {
    const root = await show(runs);
    await settle(60_000);
    expect(shown(root).text).toMatch(/Running1\smin \d+\ss/);
    expect(root.querySelector(".ak-status")!.textContent).toMatch(/^Running: Run Python, 1\smin \d+\ss$/);
    // Without a connection the page does not know whether it still runs.
    await loseLine(1_000);
    const { text } = shown(root);
    await settle(30_000);
    expect(shown(root).text).toBe(text);
    PlayedSocket.refuse = false;
    await settle(60_000);
    expect(shown(root).text).toMatch(/Running2 min \d+ s/);
  });

  test("folds its code, which is one click away, and can be cancelled alone", async () => {
    const root = await show(runs);
    expect(card(root, "t1").querySelector(".ak-code")).toBeNull();
    card(root, "t1").querySelector<HTMLElement>(".ak-fold")!.click();
    await settle();
    expect(card(root, "t1").querySelector(".ak-code")?.textContent).toBe(PYTHON.code);
    await press(card(root, "t1"), "Cancel");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_cancel", tool_call_id: "t1" });
    expect(shown(root).buttons).toEqual(["Cancelling…"]);
    expect(button(card(root, "t1"), "Cancelling…").getAttribute("aria-disabled")).toBe("true");
  });
});

describe("a call that has ended", () => {
  const plot = { kind: "display" as const, data: { "image/png": "iVBORw0KGgo=", "text/plain": "<Figure>" } };
  const head = (root: HTMLElement, id: string): HTMLElement => card(root, id).querySelector<HTMLElement>(".ak-head")!;
  const open = (root: HTMLElement, id: string): string | null => head(root, id).getAttribute("aria-expanded");
  const printed = [{ name: "stdout", text: "312 duplicates" }];

  test("folds when the next step starts, and stays as a person has put it", async () => {
    const root = await show((run) => run.did("t1", "run_python", PYTHON, 5, printed));
    expect(open(root, "t1")).toBe("true");
    await happens((run) => run.say("So it is 312."));
    expect(open(root, "t1")).toBe("false");
    head(root, "t1").click();
    await happens((run) => run.did("t2", "run_python", PYTHON, 5).say("And."));
    expect(open(root, "t1")).toBe("true");
  });

  test("folds its call and keeps its plot in view, until a person opens it in full, and folds it to its line", async () => {
    const root = await show((run) => run.did("t1", "run_python", PYTHON, 5, [plot]).ask("t2", "run_python", PYTHON));
    const seen = (): unknown[] => [
      open(root, "t1"),
      card(root, "t1").querySelector(":not([hidden]) > .ak-out > img")?.getAttribute("src"),
    ];
    expect(seen()).toEqual(["false", "data:image/png;base64,iVBORw0KGgo="]);
    expect(card(root, "t1").querySelector(".ak-fold")).toBeNull();
    head(root, "t1").click();
    await settle();
    expect(seen()).toEqual(["true", "data:image/png;base64,iVBORw0KGgo="]);
    head(root, "t1").click();
    await settle();
    expect(seen()).toEqual(["false", undefined]);
  });

  test("says who denied it and why, and the rule of a policy", async () => {
    const root = await show(asks);
    await press(card(root, "t1"), "Deny");
    await press(card(root, "t1"), "Deny");
    const by = { reason: "Keep it.", decided_by: "4f2a" };
    await happens((run) => run.answer("t1", false, by).end("t1", "run_python", "denied"));
    expect(shown(root).text).toMatch(/By you, \d+:\d\d:\d\d\s?\w*: Keep it\. Nothing ran\./);
    const reason = 'By policy: deny run_shell where command matches "curl *".';
    await happens((run) =>
      run
        .propose("t2", "run_shell", { command: "curl x" })
        .answer("t2", false, { by: "policy", reason })
        .end("t2", "run_shell", "denied"),
    );
    expect(shown(root, "t2").text).toContain(`${reason} Nothing ran.`);
  });
});

describe("Run again", () => {
  const failed = (run: Recording): Recording => runs(run).end("t1", "run_python", "error", { tool_result: "No." });
  const lost = (run: Recording): Recording =>
    runs(run).end("t1", "run_python", "unknown", { reason: "The server restarted while this call was running." });

  test("has the model ask for the call again, once", async () => {
    const root = await show(failed);
    expect(shown(root).text).toContain("Run againAsks you first.The model was told and may try another way.");
    await press(card(root, "t1"), "Run again");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_retry", tool_call_id: "t1" });
    expect(shown(root).buttons).toEqual([]);
    expect(shown(root).text).toContain("You asked the model to run it again.");
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
    await loseLine();
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

  test.each([
    ["Continue", "tool_continue", "continue", "The model was told that the outcome is unknown."],
    ["Run again", "tool_retry", "retry", "You asked the model to run it again. It asks you first."],
  ])(
    "%s answers for an unknown outcome, once, and every page shows that it was said",
    async (name, type, answer, words) => {
      const root = await show(lost);
      await press(card(root, "t1"), name);
      expect(PlayedSocket.sent.at(-1)).toEqual({ type, tool_call_id: "t1" });
      expect(shown(root).buttons).toEqual([]);
      await happens((run) => run.send({ type: "tool_answered", tool_call_id: "t1", answer, decided_by: "ana" }));
      expect(shown(root).text).toContain(words);
      expect(card(root, "t1").dataset["turn"]).toBeUndefined();
      expect(root.querySelector(".ak-status")!.textContent).toBe("Running");
    },
  );
});

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
});
