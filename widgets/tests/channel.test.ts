/** What a page does with its connection: frames, commands, and what it says that it shows. */
import { describe, expect, test, vi } from "vitest";
import {
  answer,
  runtime,
  button,
  buttons,
  card,
  decisions,
  loseLine,
  PlayedSocket,
  press,
  Recording,
  refuse,
  sessionWith,
  settle,
  show,
  usePage,
  view,
  closeViews,
  kernelView,
} from "./page";
import { asks } from "./cards";
import { KernelTransport } from "../src/channel/transport";

usePage();

const ASKS = (run: Recording): unknown => run.ask("t1", "run_python", { code: "1 + 1" });
/** The next piece of the answer at hand, which the page has not got. */
const next = (content: string): (typeof Recording.prototype.frames)[0] => {
  const run = runtime.recording!;
  return run.send({ type: "token", message_id: run.frames.at(-1)!.message_id, content }).frames.at(-1)!;
};
const resumes = (): number[] =>
  PlayedSocket.sent.flatMap((command) => (command.type === "resume" ? [command.last_seq] : []));

describe("a page that comes back", () => {
  test("continues the answer without a gap and without a repeat", async () => {
    const root = await show((run) => run.say("One two ", false));
    const seen = runtime.recording!.frames.length;
    PlayedSocket.last.drop();
    next("three");
    await settle(1_000);
    expect(PlayedSocket.all).toHaveLength(2);
    expect(resumes().at(-1)).toBe(seen);
    expect(answer(root).trim()).toBe("One two three");
  });
});

test("a page reads again only what its snapshot lacks, and shows each of it once", async () => {
  const recording = new Recording("resumed", { age: 5_000 });
  recording.say("An earlier answer.").propose("t1", "run_python", "1");
  const said = recording.frames.find((frame: { type: string }) => frame.type === "message");
  const session = sessionWith(recording, "An earlier answer.", said.message_id);
  session.resume_from = recording.frames.length;
  recording.say("Half an ans", false);
  session.last_seq = session.seq = recording.frames.length;
  recording.session = () => session;
  runtime.recording = recording;
  const root = view(recording);
  await settle();
  expect(PlayedSocket.sent).toContainEqual({ type: "resume", last_seq: session.resume_from });
  expect([...root.querySelectorAll("[data-role=answer]")].map((one) => one.textContent?.trim())).toEqual([
    "An earlier answer.",
    "Half an ans",
  ]);
});

test("a page that was away for very long is given a second session, and goes on from its snapshot", async () => {
  const root = await show((run) => run.say("Of long ago.", false));
  const { run: run_id } = runtime.recording!;
  const session = sessionWith(runtime.recording!, "All of it.");
  session.last_seq = session.seq = 100_000;
  const before = resumes().length;
  PlayedSocket.last.say(session);
  PlayedSocket.last.say({ type: "token", seq: 100_001, run_id, message_id: "n", content: "And more." });
  await settle();
  expect(resumes()).toHaveLength(before);
  expect(answer(root)).toMatch(/^\s*All of it\.\s*And more\.\s*$/);
});

describe("frames that come wrong", () => {
  test("after a gap the missing frames are asked for, and what came early is not shown early", async () => {
    const root = await show((run) => run.say("A", false));
    next("B");
    const second = next("C");
    const before = resumes().length;
    PlayedSocket.last.say(second);
    await settle();
    expect(resumes().length).toBe(before + 1);
    expect(answer(root).trim()).toBe("ABC");
  });

  test("a gap that the log itself has does not hold the page up", async () => {
    const root = await show((run) => run.say("A", false));
    const late = { ...next("B"), seq: 900 };
    runtime.recording!.frames[runtime.recording!.frames.length - 1] = late;
    PlayedSocket.last.say(late);
    PlayedSocket.last.say(late);
    await settle();
    expect(answer(root).trim()).toBe("AB");
  });
});

describe("an error that answers a command", () => {
  const two = (run: Recording): unknown =>
    run.ask("t1", "run_python", { code: "1" }).ask("t2", "run_python", { code: "2" });
  const refused = (command_id: string | null | undefined, more: object = {}): Promise<void> =>
    refuse("ACCESS_DENIED", "You may only look.", { command_id, ...more });
  async function approveBoth(): Promise<{ root: HTMLElement; ids: string[] }> {
    const root = await show(two);
    await press(card(root, "t1"), "Approve");
    await settle(400);
    await press(card(root, "t2"), "Approve");
    const ids = PlayedSocket.last.ids.slice(-2);
    return { root, ids };
  }

  test("is shown on the card of that command, whichever was first", async () => {
    const { root, ids } = await approveBoth();
    await refused(ids[1]);
    expect(card(root, "t2").textContent).toContain("You may only look.");
    expect(buttons(card(root, "t2"))).toContain("Approve");
    expect(card(root, "t1").textContent).not.toContain("You may only look.");
    expect(card(root, "t1").textContent).toContain("You chose Approve.");
  });

  test("that names none, or another page's, is blamed on no card", async () => {
    const { root } = await approveBoth();
    await refused(null);
    await refused("another page's", { code: "INTERNAL_ERROR", details: { run_id: runtime.recording!.run } });
    expect(root.textContent).not.toContain("You may only look.");
    expect(root.textContent!.split("You chose Approve.")).toHaveLength(3);
  });
});

describe("a lost connection", () => {
  test("is noticed when nothing answers a ping for five seconds", async () => {
    await show(ASKS);
    const silent = PlayedSocket.last;
    silent.send = (text) => void silent.sent.push(JSON.parse(text));
    await settle(9_500);
    expect(silent.readyState).toBe(1);
    await settle(1_000);
    expect(silent.readyState).toBe(3);
    expect(PlayedSocket.all).toHaveLength(2);
  });

  test("keeps a decision, says so, and sends it once when the connection is back", async () => {
    const root = await show(ASKS);
    await loseLine(1_500);
    expect(root.textContent).toContain("You can still decide; your click is sent when the connection is back.");
    await press(card(root, "t1"), "Approve");
    expect(card(root, "t1").textContent).toContain("You chose Approve. It is sent when the connection is back.");
    expect(card(root, "t1").textContent).toContain("Approve not sent yet");
    expect(decisions()).toHaveLength(0);
    PlayedSocket.refuse = false;
    runtime.pending = ["apr_t1"];
    await settle(20_000);
    expect(decisions()).toEqual([
      { type: "approval_response", approval_id: "apr_t1", digest: "digest_t1", approved: true },
    ]);
  });

  test("a kept decision is dropped when somebody else has decided meanwhile", async () => {
    const root = await show(ASKS);
    await loseLine(500);
    await press(card(root, "t1"), "Approve");
    runtime.recording!.answer("t1", false, { decided_by: "ana", reason: "no" }).end("t1", "run_python", "denied");
    PlayedSocket.refuse = false;
    await settle(20_000);
    expect(decisions()).toHaveLength(0);
    expect(card(root, "t1").dataset["state"]).toBe("denied");
    expect(card(root, "t1").textContent).toContain("By ana");
  });

  test("turns decisions off after a minute, and says why", async () => {
    const root = await show(ASKS);
    await loseLine(62_000);
    expect(root.textContent).toContain("No connection for 1\u00a0min.");
    expect(button(card(root, "t1"), "Approve").getAttribute("aria-disabled")).toBe("true");
    expect(card(root, "t1").textContent).toContain("Off until the connection is back.");
    await press(card(root, "t1"), "Approve");
    expect(card(root, "t1").textContent).not.toContain("You chose");
    PlayedSocket.refuse = false;
    await press(root, "Try again");
    await settle(100);
    expect(button(card(root, "t1"), "Approve").hasAttribute("aria-disabled")).toBe(false);
  });
});

test("one page has one connection for a conversation, however many outputs show it", async () => {
  const root = await show(ASKS);
  const other = view(runtime.recording!);
  await settle(120_000); // pings are answered
  expect(PlayedSocket.all).toHaveLength(1);
  await press(card(other, "t1"), "Approve");
  expect(card(root, "t1").textContent).toContain("You chose Approve.");
});

const said = (): [string, boolean][] =>
  PlayedSocket.last.sent.flatMap((command) => (command.type === "shown" ? [[command.run_id, command.shown]] : []));

test("says that it shows a run once, however many views there are, and after a lost line again", async () => {
  await show(asks);
  const { run } = runtime.recording as Recording;
  expect(said()).toEqual([[run, true]]);
  expect(PlayedSocket.last.sent[0]?.type, "where it left off has to come first").toBe("resume");
  view(runtime.recording as Recording);
  await settle();
  expect(said()).toEqual([[run, true]]);
  PlayedSocket.last.drop();
  await settle(5_000);
  expect(said()).toEqual([[run, true]]);
});

test("says so when the last view of a run goes, and when it is back", async () => {
  await show(asks);
  for (let turn = 0; turn < 2; turn += 1) {
    view(runtime.recording as Recording, "run_other");
    await settle();
    closeViews();
    await settle();
  }
  const ours = said().filter(([id]) => id === "run_other");
  expect(ours.map(([, shown]) => shown)).toEqual([true, false, true, false]);
});

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
