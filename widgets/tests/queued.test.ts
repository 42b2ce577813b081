/** A run that waits for its turn says what for, and nothing is out of reach meanwhile. */
import { describe, expect, test } from "vitest";
import { asks } from "./cards";
import { runtime, buttons, card, decisions, happens, press, Recording, settle, show, usePage, view } from "./page";

usePage();

const QUEUED = "run_queued";

/** The first run of a conversation, and another that was asked for behind it. */
function queue(run: Recording, more: object = {}): Recording {
  return run.send({
    type: "run",
    run_id: QUEUED,
    run: { ...run.view, run_id: QUEUED, prompt: "And now a table.", status: "queued", ...more },
  });
}

/** A second cell's output, which shows the run that waits. */
async function second(): Promise<HTMLElement> {
  const root = view(runtime.recording!, QUEUED);
  await settle();
  return root;
}

const bar = (root: HTMLElement): string =>
  root.querySelector("[data-role=ahead]")?.textContent?.replaceAll(/\s+/g, " ") ?? "";
const LONG = "Plot body mass by species, with one colour for each island, and say what stands out in two sentences.";

describe("a run that waits for its turn", () => {
  test("says behind which run, and that this one waits for you", async () => {
    await show((run) => queue(asks(run)), { prompt: `\u202E<b>${LONG}` });
    const root = await second();
    expect(bar(root)).toMatch(/^Behind U\+202E<b>Plot body mass by species, .*…, which waits for you\./);
    expect(root.querySelector("[data-role=ahead] i")?.getAttribute("title")).toContain(LONG);
    expect(root.querySelector(".ak-status")?.textContent).toBe("Queued");
    expect(buttons(root.querySelector("[data-role=ahead]")!)).toEqual(["Show here", "Stop it and go on"]);
  });

  test("shows the cards of the run ahead, live, which can be answered here, until it begins itself", async () => {
    await show((run) => queue(asks(run)), { prompt: "First." });
    const root = await second();
    expect(root.querySelectorAll("[data-tool-call-id]")).toHaveLength(0);
    await press(root, "Show here");
    await press(card(root, "t1"), "Approve");
    expect(decisions()).toMatchObject([{ approval_id: "apr_t1", approved: true }]);
    await happens((run) => run.answer("t1", true).start("t1", "run_python", { code: "1" }));
    expect(card(root, "t1").dataset["state"]).toBe("executing");
    expect(bar(root)).toContain("which is running");
    await press(root, "Hide");
    expect(root.querySelectorAll("[data-tool-call-id]")).toHaveLength(0);
    await press(root, "Show here");
    await happens((run) => queue(run.finish(), { status: "running" }));
    expect(bar(root)).toBe("");
    expect(root.querySelectorAll(".ak-run")).toHaveLength(1);
    expect(root.querySelector(".ak-status")?.textContent).toBe("Running");
  });
});
