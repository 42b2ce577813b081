import { afterEach, describe, expect, test, vi } from "vitest";
import { BEGIN_CONVERSATION, type BeginConversation } from "../src/ui/events";
import { PYTHON } from "./cards";
import {
  accessibleName,
  runtime,
  button,
  buttons,
  happens,
  PlayedSocket,
  press,
  settle,
  show,
  usePage,
  Recording,
} from "./page";

usePage();

describe("the run", () => {
  test("shows the prompt before anything has arrived", async () => {
    PlayedSocket.refuse = true;
    const root = await show();
    expect(root.textContent).toContain("prompt");
    expect(root.querySelector(".ak-run")?.getAttribute("data-status")).toBe("starting");
  });

  test("shows a long prompt on one line, and all of it on request, as it was written", async () => {
    const prompt = `---\ntitle: <b>x</b>\n---\nClean \`orders\`, $5 to $10.\n${"row\n".repeat(50_000)}`;
    const root = await show((run) => run.becomes({ prompt }));
    expect(root.querySelector(".ak-prompt")!.textContent.length).toBeLessThanOrEqual(400);
    expect(root.querySelector("[data-role=prompt]")).toBeNull();
    await press(root, "Whole prompt");
    const whole = root.querySelector("[data-role=prompt]")!;
    expect(whole.textContent).toContain("---\ntitle: <b>x</b>\n---\nClean `orders`, $5 to $10.\nrow\n");
    expect(whole.querySelector("b")).toBeNull();
    expect(whole.textContent.length).toBeLessThan(21_000);
  });

  test("copies code as it is, where the page lets it and where it has no clipboard", async () => {
    const code = "print(1)\n";
    const root = await show((run) => run.say("So:\n\n```python\nx = 1\n```").ask("t1", "run_python", { code }));
    const copied: string[] = [];
    const clipboard = { writeText: (text: string) => Promise.resolve(void copied.push(text)) };
    vi.stubGlobal("navigator", { clipboard });
    const buttons = [...root.querySelectorAll<HTMLButtonElement>(".ak-copy")];
    expect(buttons.map(accessibleName)).toEqual(["Copy", "Copy"]);
    for (const one of buttons) one.click();
    await settle();
    expect(copied).toEqual(["x = 1", code]);
    expect(buttons.map((one) => one.textContent)).toEqual(["Copied", "Copied"]);
    await settle(2_500);
    expect(buttons.map((one) => one.textContent)).toEqual(["Copy", "Copy"]);
    vi.stubGlobal("navigator", {});
    document.execCommand = () => copied.push((document.activeElement as HTMLTextAreaElement).value) > 0;
    buttons[1]!.focus();
    buttons[1]!.click();
    await settle();
    expect(copied.at(-1)).toBe(code);
    expect(document.activeElement).toBe(buttons[1]);
    vi.unstubAllGlobals();
  });

  test("says what the run has spent, and how much of its budgets that is", async () => {
    const root = await show();
    const usage = { ...runtime.recording!.view.usage, input_tokens: 1_234, output_tokens: 340, total_tokens: 1_574 };
    const priced = { ...usage, cost: 0.0042 };
    const [no, both, dollars] = [{}, { tokens: 200_000, usd: 0.5 }, { usd: 0.5 }];
    for (const [budget, more, words, recorded = false] of [
      [both, {}, "1.2k in · 340 out · $0.004 of $0.50 · 1.6k of 200k tokens"],
      [dollars, { cost_is_reported: true }, "1.2k in · 340 out · $0.004 of $0.50 by the service"],
      [dollars, { cost: null }, "1.2k in · 340 out · $0 of $0.50"],
      [no, { cost: 0 }, "Cost nothing", true],
      [no, { cost: null, total_tokens: 0 }, ""],
      [no, {}, "1.2k in · 340 out · $0.004"],
    ] as const) {
      const limits = { tokens: null, usd: null, ...budget };
      await happens((run) => run.becomes({ budget: limits, usage: { ...priced, ...more }, recorded }));
      expect(root.querySelector(".ak-spent")?.textContent ?? "").toBe(words);
    }
  });

  test.each([
    [{ model: "small.gguf", lean: true }, "small.gguf · fewer words and tools for its small context", { lean: false }],
    [{ model: "gpt-6", effort: "high" }, "gpt-6 · effort high", { effort: null }],
    [{ mentions: ["@sales", "@[3]"] }, "read with the prompt: @sales, @[3]", { mentions: [] }],
    [{ continues: 2 }, "continues from [2]", { continues: null }],
  ])("says of itself, as long as it is so: %j", async (fields, words, otherwise) => {
    const meta = (): string => root.querySelector(".ak-meta")?.textContent ?? "";
    const root = await show((run) => run.becomes({ recorded: false, ...fields }));
    expect(meta()).toContain(words);
    await happens((run) => run.becomes(otherwise));
    expect(meta()).not.toContain(words);
  });

  describe("beside the cell that it continues from", () => {
    let stop: () => void = () => undefined;
    afterEach(() => stop());
    const continued = { continues: 2, cell_id: "cell-b" };
    const continuing = (more: object): Promise<HTMLElement> => show((run) => run.becomes(more));
    /** An application whose extension runs cells, or finds none around the output. */
    const extension = (finds: boolean): string[] => {
      const ran: string[] = [];
      const answer = (event: Event): void => {
        const { cellId } = (event as CustomEvent<BeginConversation>).detail;
        if (cellId !== null && !finds) return;
        if (cellId !== null) ran.push(cellId);
        event.preventDefault();
      };
      document.addEventListener(BEGIN_CONVERSATION, answer);
      stop = () => document.removeEventListener(BEGIN_CONVERSATION, answer);
      return ran;
    };

    test("a new conversation is one press away, which runs its own cell and sends nothing else", async () => {
      const ran = extension(true);
      const root = await continuing(continued);
      const sent = PlayedSocket.sent.length;
      expect(button(root, "New conversation").title).toBe("Start this prompt again in a new conversation");
      await press(root, "New conversation");
      expect(ran).toEqual(["cell-b"]);
      expect(PlayedSocket.sent.length).toBe(sent);
    });
  });

  test("shows that the model thinks until it speaks, folded", async () => {
    const think = (run: Recording, content: string): Recording =>
      run.send({ type: "reasoning", message_id: "m", content });
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
  const failed = (run: Recording, message = "gpt-5.2 returned 429, too many requests."): Recording => {
    const error = { code: "LLM_ERROR" as const, message };
    return run
      .send({ type: "error", ...error, details: {} })
      .becomes({ error })
      .finish("error");
  };
  const alert = (root: HTMLElement): Element => root.querySelector("[role=alert] .ak-grow")!;

  test.each([
    ["gpt-5.2 returned 429", "The model did not answer. gpt-5.2 returned 429. Nothing is lost."],
    ["The recording no longer fits: sum.jsonl:4 answers something else."],
    ["The answer was cut off after 4 words: the connection was closed early."],
  ])("or did, says so, what it means and nothing twice: %s", async (message, words = message) => {
    expect(alert(await show((run) => failed(run, message))).textContent!.trim()).toBe(words);
  });

  test("can be tried again, once a click, and goes on where it was", async () => {
    const root = await show((run) => failed(run.did("t1", "run_python", PYTHON, 5)));
    await press(root, "Try again");
    expect(PlayedSocket.sent.at(-1)).toMatchObject({ type: "run_retry" });
    expect(buttons(root)).not.toContain("Try again");
    await happens((run) => run.becomes({ status: "running", error: null, ended_at: null }).say("It is 42."));
    expect(root.querySelector(".ak-status")!.textContent).toBe("Running");
    expect(buttons(root)).not.toContain("Try again");
    expect(root.querySelector("[data-role=answer]")!.textContent).toContain("It is 42.");
  });
});

describe("what was left out of a long conversation", () => {
  const SUMMARY = "Asked: find duplicates.\nLeft: the plot.";
  const card = (root: HTMLElement): HTMLElement | null =>
    root.querySelector('[role=group][aria-label="Summarised 42 messages"]');

  test("is one line where results were shortened, and a card with the summary, which stays open when the run goes on", async () => {
    const root = await show((run) => run.notice("Shortened 5 older tool results for the model."));
    const line = root.querySelector("[data-role=note]")!;
    expect(line.textContent).toBe("Shortened 5 older tool results for the model.");
    expect(line.querySelector("button")).toBeNull();
    await happens((run) => run.notice("Summarised 42 messages", `${SUMMARY} user\u202e admin`));
    const head = card(root)!.querySelector("button")!;
    expect(head.getAttribute("aria-expanded")).toBe("false");
    expect(root.textContent).not.toContain("Left: the plot.");
    head.click();
    await happens((run) => run.did("t1", "run_python", { code: "1" }, 5).notice("Summarised 7 messages", "More."));
    expect(head.getAttribute("aria-expanded")).toBe("true");
    expect(card(root)!.querySelector(".ak-say")!.textContent).toBe(`${SUMMARY} userU+202E admin`);
    expect(root.querySelectorAll("[data-role=note]")).toHaveLength(3);
    head.click();
    await settle();
    expect(root.textContent).not.toContain("Left: the plot.");
  });
});
