/** The ways of frames to a page: over a WebSocket, and as messages of a widget. */
import { describe, expect, test, vi } from "vitest";
import { KernelTransport } from "../src/channel/transport";
import {
  answer,
  button,
  buttons,
  card,
  kernelView,
  loseLine,
  PlayedSocket,
  press,
  Recording,
  runtime,
  settle,
  show,
  usePage,
} from "./page";

usePage();

const ASKS = (run: Recording): unknown => run.ask("t1", "run_python", { code: "1 + 1" });

describe("a server that has no log", () => {
  test("is asked why, and the page says it until there is a connection", async () => {
    const root = await show(ASKS);
    runtime.trouble = "The log at /home/ana/agent-kernel.sqlite can't be opened.";
    await loseLine(2_000);
    expect(root.querySelector("[role=alert]")?.textContent).toContain(
      "Agent Kernel does not work on this server. The log at /home/ana/agent-kernel.sqlite",
    );
    PlayedSocket.refuse = false;
    await press(root, "Try again");
    await settle(100);
    expect(root.textContent).not.toContain("does not work on this server");
  });
});

describe("a page that may not read any more", () => {
  test.each([
    ["is told by the close of its channel", 1008, 200],
    ["is told when it asks why it can't come back", 1006, 403],
  ])("%s, stops, and tries again where a person wants it to", async (_, code, status) => {
    const root = await show(ASKS);
    PlayedSocket.refuse = true;
    runtime.status = status;
    PlayedSocket.last.drop(code);
    await settle(1_000);
    const tried = PlayedSocket.all.length;
    await settle(120_000);
    window.dispatchEvent(new Event("online"));
    await settle(1_000);
    expect(PlayedSocket.all).toHaveLength(tried);
    expect(root.querySelector("[role=alert]")?.textContent).toContain(
      "This page may not read the conversation any more.",
    );
    expect(button(card(root, "t1"), "Approve").getAttribute("aria-disabled")).toBe("true");

    runtime.status = 403;
    await press(root, "Try again");
    await settle(120_000);
    expect(PlayedSocket.all).toHaveLength(tried + 1);
    PlayedSocket.refuse = false;
    await press(root, "Try again");
    await settle(100);
    expect(root.textContent).not.toContain("may not read");
    expect(button(card(root, "t1"), "Approve").hasAttribute("aria-disabled")).toBe(false);
  });
});

describe("the embedded host", () => {
  test("is asked for everything first, and its frames come as messages of the widget", async () => {
    const recording = new Recording("embedded1").say("Hello from the kernel.").ask("t1", "run_python", { code: "1" });
    const { sent, deliver, root, close } = kernelView(recording);
    deliver(recording);
    await settle();
    expect(sent[0]).toMatchObject({ command: { type: "resume", last_seq: 0 } });
    expect(answer(root).trim()).toBe("Hello from the kernel.");
    await press(card(root, "t1"), "Approve");
    expect(sent.at(-1)).toMatchObject({
      command: { type: "approval_response", approval_id: "apr_t1", approved: true },
    });
    expect(PlayedSocket.all).toHaveLength(0);
    close();
  });

  test("leaves no button behind when its kernel restarts", async () => {
    const recording = new Recording("embedded2").ask("t1", "run_python", { code: "1" });
    const { deliver, restart, root, close } = kernelView(recording);
    deliver(recording);
    await settle();
    expect(buttons(root)).toContain("Approve");
    restart();
    await settle();
    expect(buttons(root)).toEqual([]);
    expect(root.textContent).toContain("The kernel is gone.");
    close();
  });
});

describe("a page of an embedded host", () => {
  const asked = (sent: unknown[]): string[] =>
    sent.flatMap((one) => {
      const { command } = one as { command: { type: string; id: string } };
      return command.type === "resume" ? [command.id] : [];
    });
  test("has the whole answer that was being written when it came, once, also when another page comes", async () => {
    const recording = new Recording("embedded-session");
    recording.say("Half an ans", false);
    const page = kernelView(recording);
    await settle();
    page.say({ ...recording.session(), command_id: asked(page.sent)[0] }, ...recording.frames);
    await settle();
    expect(answer(page.root)).toContain("Half an ans");
    expect(asked(page.sent)).toHaveLength(1);
    page.say({ ...recording.session(), command_id: "another page's" }, ...recording.frames);
    await settle();
    expect(answer(page.root).split("Half an ans")).toHaveLength(2);
    page.close();
  });
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
