import { describe, expect, test } from "vitest";
import { asks, PYTHON, runs, shown } from "./cards";
import { button, card, happens, loseLine, PlayedSocket, press, settle, show, usePage, type Recording } from "./page";

usePage();

describe("a call that runs", () => {
  test("shows the end of a long output as it grows, unless the reader has scrolled up", async () => {
    const root = await show((run) => runs(run).output("t1", 0, { name: "stdout", text: "one\n" }));
    const frame = card(root, "t1").querySelector<HTMLElement>(".ak-stream")!;
    Object.defineProperties(frame, { scrollHeight: { value: 2_000 }, clientHeight: { value: 400 } });
    await happens((run) => run.output("t1", 1, { name: "stdout", text: "two\n" }));
    expect(frame.scrollTop).toBe(2_000);
    frame.scrollTop = 300;
    frame.dispatchEvent(new Event("scroll"));
    await happens((run) => run.output("t1", 2, { name: "stdout", text: "three\n" }));
    expect(frame.scrollTop).toBe(300);
  });

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

  test("is next in line while the user's own cell runs", async () => {
    const root = await show((run) => runs(run).waits("t1", "run_python", PYTHON, 9));
    expect(shown(root)).toMatchObject({ state: "executing", buttons: ["Cancel"] });
    expect(shown(root).text).toContain("Approved, next in line");
    expect(shown(root).text).toContain("Your cell [9] is running. This call starts when it ends.");
    expect(root.querySelector(".ak-status")!.textContent).toMatch(/^Waiting for your cell \[9\], \d\ss$/);
    await happens((run) => run.output("t1", 0, { name: "stdout", text: "1" }));
    expect(shown(root).text).toContain("Running");
    expect(shown(root).text).not.toContain("Your cell");
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

  test("runs a command outside its walls once, where they have stopped it", async () => {
    const command = { command: "curl x" };
    const stopped = (run: Recording, tool_result: string): unknown =>
      run
        .ask("t1", "run_shell", command)
        .answer("t1", true)
        .start("t1", "run_shell", command)
        .end("t1", "run_shell", "error", { tool_result });
    const met = "Error: walls: workspace (bubblewrap)\nstopped by the walls: curl: (6) Could not resolve\nExit code: 6";
    const root = await show((run) => stopped(run, met), { mode: "allow" });
    expect(shown(root).buttons).toEqual(["Run again", "Run outside once"]);
    expect(shown(root).text).toContain("Run outside onceOutside asks you first.");
    await press(card(root, "t1"), "Run outside once");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_retry", tool_call_id: "t1", outside: true });
    expect(shown(root).buttons).toEqual([]);
    expect(shown(await show((run) => stopped(run, "Error: Stopped after 2 s."))).buttons).toEqual(["Run again"]);
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
