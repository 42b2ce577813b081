/** Without a server the kernel itself is the other side, which may receive nothing while it runs a cell. */
import { expect, test, vi } from "vitest";
import { KernelTransport } from "../src/channel/transport";
import { button, buttons, card, kernelView, press, Recording, settle, show, usePage } from "./page";

usePage();

const PYTHON = { code: "print(1)" };
let runs = 0;

async function page(build: (run: Recording) => Recording) {
  const recording = build(new Recording(`heard${(runs += 1)}`, { age: 5_000 }));
  const kernel = kernelView(recording);
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
const TAKEN_LATER = "You chose Approve. The kernel takes it when the running cell ends.";
const NOT_STOPPED = "This kernel hears Stop and Cancel when what it runs has ended.";

test("a click that is not answered for a second is said to wait for the cell's end, until it is heard", async () => {
  const { root, sent, answer, text } = await page(asks);
  await press(card(root, "t1"), "Approve");
  expect(sent).toContainEqual({ command: expect.objectContaining({ type: "approval_response", approved: true }) });
  expect(text()).toContain("You chose Approve.");
  expect(text()).not.toContain(TAKEN_LATER);
  await settle(1_000);
  expect(text()).toContain(TAKEN_LATER);
  expect(buttons(card(root, "t1"))).toEqual([]);
  await answer((run) => run.answer("t1", true).start("t1", "run_python", PYTHON));
  expect(text()).not.toContain("You chose");
  expect(root.querySelector(".ak-status")?.textContent).toMatch(/^Running: Run Python, \d\ss$/);
  expect(card(root, "t1").dataset["state"]).toBe("executing");
});

test("Stop says that it is not heard yet, and how to end the call now", async () => {
  const { root, answer } = await page(executes);
  await press(root, "Stop");
  expect(root.textContent).not.toContain(NOT_STOPPED);
  await settle(1_000);
  expect(root.textContent).toContain(`${NOT_STOPPED} To end that now, interrupt the kernel.`);
  await answer((run) => run.end("t1", "run_python", "cancelled", { reason: "By you." }).finish("cancelled"));
  expect(root.textContent).not.toContain(NOT_STOPPED);
});

test("Cancel says so too, for as long as the call runs", async () => {
  const { root, answer } = await page(executes);
  await press(card(root, "t1"), "Cancel");
  expect(button(card(root, "t1"), "Cancelling…").getAttribute("aria-disabled")).toBe("true");
  await settle(1_000);
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

test("a page asks for its events again until the kernel answers, or the page is gone", () => {
  const callbacks = new Map<string, (message: unknown) => void>();
  const sent: unknown[] = [];
  const frames: string[] = [];
  const nothing = (): void => undefined;
  const begin = (): KernelTransport => {
    const transport = new KernelTransport({
      on: (event, callback) => void callbacks.set(event, callback),
      off: (event) => void callbacks.delete(event),
      send: (content) => void sent.push(content),
    });
    const frame = (text: string): void => void frames.push(text);
    transport.start({ opened: nothing, frame, lost: nothing, trouble: nothing, ended: nothing });
    transport.send({ type: "resume", last_seq: 0 });
    return transport;
  };
  begin();
  vi.advanceTimersByTime(2_500); // a first message may be held until the cell ends
  expect(sent).toHaveLength(3);
  callbacks.get("msg:custom")?.({ frames: ["one"] });
  vi.advanceTimersByTime(10_000);
  expect([sent.length, ...frames]).toEqual([3, "one"]);
  begin().close();
  vi.advanceTimersByTime(10_000);
  expect(sent).toHaveLength(4);
});
