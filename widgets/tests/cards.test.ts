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
        run.ask(
          "t1",
          "write_file",
          { path: "exports/a.csv", content: "b" },
          { scopes: ["once", "conversation", "project"] },
        ),
      );
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
      expect(decisions()[0]).toMatchObject({
        approved: true,
        scope: "project",
        digest: "digest_t1",
        rule: 'allow write_file where path matches "exports/*.csv"',
      });
    });

    test("is beside what is not asked again in this run, from narrow to wide, and never the exact call", async () => {
      const root = await show((run) => run.ask("t1", "run_python", { code: "1" }));
      await press(card(root, "t1"), "Don’t ask again");
      expect(choices(root)).toEqual([
        "Python that, as far as it can be read, writes no files, uses no network and no shella reading, and no wall",
        "Every run_python callany arguments",
        "Every callof every tool, within walls",
      ]);
      expect(rule(root)).toBe("allow run_python where warnings within [] in this run");
      await press(card(root, "t1"), "Approve, and don’t ask again");
      expect(decisions()[0]).toMatchObject({
        approved: true,
        scope: "run",
        digest: "digest_t1",
        rule: "allow run_python where warnings within []",
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

  test("a recording's decision is told from a script's, and the header says first how many calls it approved", async () => {
    const three = (run: Recording): Recording =>
      asks(run).ask("t2", "run_shell", { command: "ls" }).ask("t3", "run_shell", { command: "rm x" });
    const by = { by: "script", decided_by: "a recording" } as const;
    const first = (root: Element): string =>
      root.querySelector(".ak-header .ak-meta")?.firstElementChild?.textContent ?? "";
    const denied = await show((run) => three(run).answer("t1", false, by).answer("t2", false, { by: "script" }));
    expect(shown(denied).text).toContain("By a recording");
    expect(shown(denied, "t2").text).toContain("By a script");
    expect(first(denied)).not.toContain("recording");
    const root = await show((run) => three(run).answer("t1", true, by).answer("t3", false, by));
    expect(first(root)).toBe("A recording approved 1 call");
    await happens((run) => run.answer("t2", true, by));
    expect(first(root)).toBe("A recording approved 2 calls");
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

  test("only one has the full frame", async () => {
    const root = await show(three);
    expect(root.querySelectorAll("[data-turn=you]")).toHaveLength(3);
    expect(root.querySelectorAll("[data-current]")).toHaveLength(1);
    card(root, "t3").focus();
    await settle();
    expect(card(root, "t3").hasAttribute("data-current")).toBe(true);
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
