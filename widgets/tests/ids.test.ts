/** Cards side by side on one page: ids of calls, and what goes to the notebook around them. */
import { describe, expect, test, afterEach } from "vitest";
import { PYTHON, asks } from "./cards";
import { buttons, card, decisions, kernelView, press, Recording, settle, show, usePage, type KernelView } from "./page";
import { INSERT_CELLS, type InsertCells } from "../src/ui/events";

usePage();

/** Conversations whose models count their calls alike, each with its cards on the same page. */
function pageOf(...names: string[]): KernelView[] {
  return names.map((name) => {
    const recording = new Recording(name).ask("call_0", "run_python", PYTHON, { approval_id: `apr_${name}` });
    const view = kernelView(recording);
    view.deliver(recording);
    return view;
  });
}

function cards(views: KernelView[]): HTMLElement[] {
  return views.map((view) => card(view.root, "call_0"));
}

describe("two conversations on one page, with a call of the same id", () => {
  test("a decision is for the call of its own conversation, and leaves the other waiting", async () => {
    const views = pageOf("one", "two");
    await settle();
    const [first, second] = cards(views);
    await press(second!, "Approve");
    const sent = views.map((view) =>
      (view.sent as { command: { type: string; approval_id?: string } }[]).flatMap(({ command }) =>
        command.type === "approval_response" ? [command.approval_id] : [],
      ),
    );
    expect(sent).toEqual([[], ["apr_two"]]);
    expect(buttons(first!)).toContain("Approve");
    expect(buttons(second!)).not.toContain("Approve");
    for (const view of views) view.close();
  });
});

describe("a call whose id is any text", () => {
  const ids = ["constructor", "__proto__", '"]<b>\\', `call__thought__${"A/+=".repeat(999)}`].map(
    (id) => [id.slice(0, 24), id] as const,
  );

  test.each(ids)("%s", async (_, id) => {
    const root = await show((run) => run.ask(id, "run_python", PYTHON));
    expect(card(root, id).dataset["toolCallId"]).toBe(id);
    await press(card(root, id), "Approve");
    expect(decisions().map((decision) => decision.approval_id)).toEqual([`apr_${id}`]);
  });
});
let stop: () => void = () => undefined;
afterEach(() => stop());

/** An application whose extension takes cells, or has none around the output. */
function extension(takes: boolean): string[][] {
  const taken: string[][] = [];
  const answer = (event: Event): void => {
    const { cells } = (event as CustomEvent<InsertCells>).detail;
    if (cells.length > 0 && !takes) return;
    if (cells.length > 0) taken.push([...cells]);
    event.preventDefault();
  };
  document.addEventListener(INSERT_CELLS, answer);
  stop = () => document.removeEventListener(INSERT_CELLS, answer);
  return taken;
}

test("a card's code goes below as it is shown, and decides nothing", async () => {
  const taken = extension(true);
  const root = await show(asks);
  await press(card(root, "t1"), "Insert below as a cell");
  expect(taken).toEqual([[PYTHON.code]]);
  expect(card(root, "t1").dataset["state"]).toBe("awaiting_approval");
});
