/** Without a server the kernel itself is the other side, and some kernels receive nothing while they run a cell. */
import { expect, test } from "vitest";
import { button, buttons, card, kernelView, press, Recording, settle, show, usePage } from "./page";

usePage();

const PYTHON = { code: "print(1)" };
let runs = 0;

async function page(receives: "usually" | "between-cells", build: (run: Recording) => Recording) {
  const recording = build(new Recording(`heard${(runs += 1)}`, { age: 5_000 }));
  const kernel = kernelView(recording, receives);
  const answer = async (more: (run: Recording) => unknown = () => undefined): Promise<void> => {
    more(recording);
    kernel.deliver(recording);
    await settle();
  };
  await answer();
  return { ...kernel, answer, text: () => (card(kernel.root, "t1").textContent ?? "").replaceAll(/\s+/g, " ") };
}

const asks = (run: Recording): Recording => run.ask("t1", "run_python", PYTHON);
const executes = (run: Recording): Recording => asks(run).answer("t1", true).start("t1", "run_python", PYTHON);
const WHEN_FREE = "This kernel takes a decision when no cell is running.";
const TAKEN_LATER = "You chose Approve. The kernel takes it when the running cell ends.";
const NOT_STOPPED = "This kernel hears Stop and Cancel when what it runs has ended.";

test("a card says before the click that a kernel receives nothing while it runs a cell", async () => {
  const { root, text } = await page("between-cells", asks);
  expect(text()).toContain(WHEN_FREE);
  expect(buttons(card(root, "t1"))).toContain("Approve");
});

test("while a cell waits for the run the kernel receives at once, and the card says so no longer; then it says it again", async () => {
  const { root, text, setReceives } = await page("between-cells", asks);
  setReceives("usually");
  await settle();
  expect(text()).not.toContain(WHEN_FREE);
  await press(card(root, "t1"), "Approve");
  expect(text()).toContain("You chose Approve.");
  expect(text()).not.toContain(TAKEN_LATER);
  expect(root.querySelector(".ak-status")?.textContent).toBe("Waiting for you");
  setReceives("between-cells");
  await settle();
  expect(text()).toContain(TAKEN_LATER);
  expect(root.querySelector(".ak-status")?.textContent).toBe("Waiting for the kernel");
});

test("a click that waits for the cell to end is shown to wait, and ends as soon as it is heard", async () => {
  const { root, sent, answer, text } = await page("between-cells", asks);
  await press(card(root, "t1"), "Approve");
  expect(sent).toContainEqual({ command: expect.objectContaining({ type: "approval_response", approved: true }) });
  expect(text()).toContain(TAKEN_LATER);
  expect(text()).toContain("Approve chosen");
  expect(root.textContent).not.toContain("Waiting for you");
  expect(root.querySelector(".ak-status")?.textContent).toBe("Waiting for the kernel");
  expect(buttons(card(root, "t1"))).toEqual([]);
  await answer((run) => run.answer("t1", true).start("t1", "run_python", PYTHON));
  expect(text()).not.toContain("You chose");
  expect(root.querySelector(".ak-status")?.textContent).toBe("Running");
  expect(card(root, "t1").dataset["state"]).toBe("executing");
});

test("an answer to a pause waits for the cell to end too, and neither the card nor the header waits for the person", async () => {
  const { root, answer } = await page("between-cells", (run) =>
    run.pause(["tool_calls"], { tokens: null, tool_calls: 2, seconds: null }, { tool_calls: 2 }),
  );
  const status = (): string | null | undefined => root.querySelector(".ak-status")?.textContent;
  expect(status()).toBe("Waiting for you");
  await press(root, "Continue");
  expect(status()).toBe("Waiting for the kernel");
  expect(root.querySelector("[data-pause-id]")?.textContent).toContain("Continue chosen");
  expect(root.textContent).not.toContain("Waiting for you");
  await answer((run) => run.raise({ tool_calls: 1 }));
  expect(status()).toBe("Running");
});

test("a kernel that usually receives at once is said to be busy only after a second without an answer", async () => {
  const { root, text } = await page("usually", asks);
  expect(text()).not.toContain(WHEN_FREE);
  await press(card(root, "t1"), "Approve");
  expect(text()).toContain("You chose Approve.");
  expect(text()).not.toContain(TAKEN_LATER);
  await settle(1_000);
  expect(text()).toContain(TAKEN_LATER);
});

test("Stop says that it is not heard yet, and how to end the call now", async () => {
  const { root, answer } = await page("between-cells", executes);
  expect(root.textContent).not.toContain(NOT_STOPPED);
  await press(root, "Stop");
  expect(root.textContent).toContain(`${NOT_STOPPED} To end that now, interrupt the kernel.`);
  await answer((run) => run.end("t1", "run_python", "cancelled", { reason: "By you." }).finish("cancelled"));
  expect(root.textContent).not.toContain(NOT_STOPPED);
});

test("Cancel says so too, for as long as the call runs", async () => {
  const { root, answer } = await page("between-cells", executes);
  await press(card(root, "t1"), "Cancel");
  expect(button(card(root, "t1"), "Cancelling…").getAttribute("aria-disabled")).toBe("true");
  expect(root.textContent).toContain(NOT_STOPPED);
  await answer((run) => run.end("t1", "run_python", "cancelled", { reason: "By you." }));
  expect(root.textContent).not.toContain(NOT_STOPPED);
});

test("a server receives at any time, and nothing is said", async () => {
  const root = await show(executes);
  await press(root, "Stop");
  await settle(2_000);
  expect(root.textContent).not.toContain(NOT_STOPPED);
});
