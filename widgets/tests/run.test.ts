import { afterEach, describe, expect, test, vi } from "vitest";
import { BEGIN_CONVERSATION, type BeginConversation } from "../src/ui/events";
import type { ConversationView } from "../src/protocol";
import { fromSnapshot } from "../src/state/reduce";
import { asks, PYTHON, shown } from "./cards";
import {
  accessibleName,
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
    const root = await show((run) => {
      run.view = { ...run.view, prompt } as typeof run.view;
      return run.send({ type: "run", run: run.view });
    });
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

  test("says what the run has spent, and how much of its budgets that is", async () => {
    const usage = {
      input_tokens: 1_234,
      output_tokens: 340,
      total_tokens: 1_574,
      cost: 0.0042,
      cost_is_partial: false,
      cached_tokens: 1_100,
    };
    const shows = async (fields: object, more: object = {}): Promise<string> => {
      await happens((run) =>
        run.send({
          type: "run",
          run: {
            ...run.view,
            budget: { tokens: null, usd: null },
            ...fields,
            usage: { ...run.view.usage, ...usage, ...more },
          },
        }),
      );
      return root.querySelector(".ak-spent")?.textContent ?? "";
    };
    const root = await show(() => undefined);
    expect(await shows({})).toBe("1.2k in · 340 out · $0.004");
    expect(root.querySelector(".ak-spent")?.getAttribute("title")).toContain("1,100 tokens from the cache");
    expect(await shows({}, { cost_is_partial: true })).toBe("1.2k in · 340 out · ≥ $0.004");
    expect(await shows({}, { cost: null })).toBe("1.2k in · 340 out");
    expect(await shows({ budget: { tokens: 200_000, usd: 0.5 } })).toBe(
      "1.2k in · 340 out · $0.004 of $0.50 · 1.6k of 200k tokens",
    );
    expect(await shows({ budget: { tokens: null, usd: 0.5 } }, { cost_is_reported: true })).toBe(
      "1.2k in · 340 out · $0.004 of $0.50 by the service",
    );
    expect(await shows({ budget: { tokens: null, usd: 0.5 } }, { cost: null })).toBe("1.2k in · 340 out · $0 of $0.50");
    expect(await shows({ recorded: true }, { cost: 0 })).toBe("Cost nothing");
    expect(await shows({}, { cost: null, total_tokens: 0 })).toBe("");
  });

  test("says that a model with a small context is sent less", async () => {
    const root = await show((run) =>
      run.send({ type: "run", run: { ...run.view, model: "small.gguf", lean: true, recorded: false } }),
    );
    expect(root.querySelector(".ak-meta")?.textContent).toContain(
      "small.gguf · fewer words and tools for its small context",
    );
  });

  test("shows how much the model was asked to reason", async () => {
    const root = await show((run) =>
      run.send({ type: "run", run: { ...run.view, model: "gpt-6", effort: "high", recorded: false } }),
    );
    expect(root.querySelector(".ak-meta")?.textContent).toContain("gpt-6 · effort high");
    await happens((run) => run.send({ type: "run", run: { ...run.view, effort: null } }));
    expect(root.querySelector(".ak-meta")?.textContent).not.toContain("effort");
  });

  test("says what was read with its prompt", async () => {
    const root = await show((run) => run.send({ type: "run", run: { ...run.view, mentions: ["@sales", "@[3]"] } }));
    expect(root.querySelector(".ak-meta")?.textContent).toContain("read with the prompt: @sales, @[3]");
    await happens((run) => run.send({ type: "run", run: { ...run.view, mentions: [] } }));
    expect(root.querySelector(".ak-meta")?.textContent).not.toContain("read with");
  });

  test("says which cell it continues from", async () => {
    const root = await show((run) => run.send({ type: "run", run: { ...run.view, continues: 2 } }));
    expect(root.querySelector(".ak-meta")?.textContent).toContain("continues from [2]");
    expect(root.querySelector(".ak-continues")?.getAttribute("title")).toContain("--new");
    await happens((run) => run.send({ type: "run", run: { ...run.view, continues: null } }));
    expect(root.querySelector(".ak-continues")).toBeNull();
  });

  describe("beside the cell that it continues from", () => {
    let stop: () => void = () => undefined;
    afterEach(() => stop());
    const continued = { continues: 2, cell_id: "cell-b" };
    const continuing = (more: object): Promise<HTMLElement> =>
      show((run) => run.send({ type: "run", run: { ...run.view, ...more } }));
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

    test("there is no press without an extension, a cell, or something that it continues", async () => {
      expect(buttons(await continuing(continued))).not.toContain("New conversation");
      extension(true);
      await happens((run) => run.send({ type: "run", run: { ...run.view, continues: 2, cell_id: null } }));
      expect(buttons(document.body)).not.toContain("New conversation");
      await happens((run) => run.send({ type: "run", run: { ...run.view, continues: null, cell_id: "cell-b" } }));
      expect(buttons(document.body)).not.toContain("New conversation");
    });

    test("where its cell is not in this notebook, it says what to do", async () => {
      extension(false);
      const root = await continuing(continued);
      await press(root, "New conversation");
      expect(root.querySelector("[role=alert]")?.textContent).toContain("--new");
    });
  });

  test("says what went wrong, what it means and nothing twice", async () => {
    const root = await show((run) =>
      run
        .send({
          type: "error",
          code: "LLM_ERROR",
          message: "gpt-5.2 returned 429, too many requests",
          tool_call_id: null,
          details: {},
        })
        .finish("error"),
    );
    expect(root.querySelector("[role=alert]")?.textContent).toBe(
      "The model did not answer. gpt-5.2 returned 429, too many requests. Nothing is lost.",
    );
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
  const failed = (run: Recording): Recording => {
    const error = { code: "LLM_ERROR" as const, message: "gpt-5.2 returned 429, too many requests." };
    run.send({ type: "error", ...error, tool_call_id: null, details: {} });
    run.view = { ...run.view, error } as typeof run.view;
    return run.finish("error");
  };

  test.each([
    "The recording no longer fits: sum.jsonl:4 answers something else.",
    "The answer was cut off after 4 words: the connection was closed early.",
  ])("or did, says so and nothing of no answer: %s", async (message) => {
    const root = await show((run) => {
      run.send({ type: "error", code: "LLM_ERROR", message, tool_call_id: null, details: {} });
      return run.finish("error");
    });
    expect(root.querySelector("[role=alert] .ak-grow")!.textContent!.trim()).toBe(message);
  });

  test("shows what was recorded and what is asked now in columns", async () => {
    const columns = ["  recorded         | now", "  Adelie    190.0  | Adelie    190.6"];
    const root = await show((run) => {
      const message = ["The recording no longer fits: sum.jsonl:4.", "In the result:", ...columns, "Record it again."];
      run.send({ type: "error", code: "LLM_ERROR", message: message.join("\n"), tool_call_id: null, details: {} });
      return run.finish("error");
    });
    const said = root.querySelector("[role=alert] .ak-grow")!;
    expect(said.querySelector("pre")!.textContent).toBe("recorded         | now\nAdelie    190.0  | Adelie    190.6");
    expect([...said.querySelectorAll(".ak-next")].map((line) => line.textContent)).toEqual([
      "In the result:",
      "Record it again.",
    ]);
  });

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
    PlayedSocket.last.say({
      type: "error",
      seq: 1,
      code: "CONFLICT",
      message: "This run can't be tried again: something else was asked for since.",
      details: { run_id: root.querySelector("[data-run-id]")!.getAttribute("data-run-id") },
    });
    await settle();
    expect(root.textContent).toContain("something else was asked for since");
    PlayedSocket.refuse = true;
    PlayedSocket.last.drop();
    await settle();
    expect(buttons(root)).not.toContain("Try again");
  });
});

describe("what was left out of a long conversation", () => {
  const SUMMARY = "Asked: find duplicates.\nLeft: the plot.";
  const card = (root: HTMLElement): HTMLElement | null =>
    root.querySelector('[role=group][aria-label="Summarised 42 messages"]');

  test("is one line where results were shortened", async () => {
    const root = await show((run) =>
      run.did("t1", "run_python", { code: "1" }, 5).notice("Shortened 5 older tool results for the model."),
    );
    const line = root.querySelector("[data-role=note]")!;
    expect(line.textContent).toBe("Shortened 5 older tool results for the model.");
    expect(line.querySelector("button")).toBeNull();
  });

  test("is a card with the summary, which is shown when it is opened", async () => {
    const root = await show((run) =>
      run.did("t1", "run_python", { code: "1" }, 5).notice("Summarised 42 messages", SUMMARY).say("Done."),
    );
    const head = card(root)!.querySelector("button")!;
    expect(head.getAttribute("aria-expanded")).toBe("false");
    expect(root.textContent).not.toContain("Left: the plot.");
    head.click();
    await settle();
    expect(head.getAttribute("aria-expanded")).toBe("true");
    expect(card(root)!.querySelector(".ak-say")!.textContent).toBe(SUMMARY);
    head.click();
    await settle();
    expect(root.textContent).not.toContain("Left: the plot.");
  });

  test("stays open when the run goes on, and what hides in it is shown", async () => {
    const root = await show((run) => run.notice("Summarised 42 messages", "user\u202e admin"));
    card(root)!.querySelector("button")!.click();
    await happens((run) => run.did("t1", "run_python", { code: "1" }, 5).notice("Summarised 7 messages", "More."));
    expect(card(root)!.querySelector(".ak-hidden")).not.toBeNull();
    expect(root.querySelectorAll("[data-role=note]")).toHaveLength(2);
  });

  test("is the same after a reload, between the same turns", () => {
    const recording = new Recording("c").notice("Summarised 42 messages", SUMMARY);
    const snapshot = { ...recording.session().snapshot } as unknown as ConversationView;
    const state = fromSnapshot(snapshot, recording.run);
    expect(state.items).toEqual([{ kind: "note", id: "note-0", text: "Summarised 42 messages", detail: SUMMARY }]);
  });
});
