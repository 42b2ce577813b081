import { describe, expect, test } from "vitest";
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
} from "./page";

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

  test("reads a run that is under way again from its beginning", async () => {
    const root = await show((run) => run.say("Half an ans", false));
    expect(resumes()).toEqual([0]);
    expect(answer(root)).toContain("Half an ans");
  });
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

  test("an error of the runtime's host is shown once in the run that it stops", async () => {
    const root = await show((run) => run.say("A", false));
    for (let times = 0; times < 3; times += 1)
      await refuse("INTERNAL_ERROR", "The log can't be written.", { command_id: null });
    expect(root.textContent!.split("The log can't be written.")).toHaveLength(2);
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
  test.each([
    ["ten seconds", () => undefined],
    ["six", () => window.dispatchEvent(new Event("offline"))],
  ])("is noticed when nothing answers a ping: after %s", async (seconds, occurs) => {
    await show(ASKS);
    const silent = PlayedSocket.last;
    silent.send = (text) => void silent.sent.push(JSON.parse(text));
    await settle(1_000);
    occurs(); // what the browser knows, it tells
    await settle(seconds === "six" ? 4_500 : 8_500);
    expect(silent.readyState).toBe(1);
    await settle(1_000);
    expect(silent.readyState).toBe(3);
    expect(PlayedSocket.all).toHaveLength(2);
  });

  test("of which nothing was noticed is made good when a pong names events that did not come", async () => {
    const root = await show((run) => run.say("A", false));
    next("B");
    PlayedSocket.last.say({ type: "pong", seq: runtime.recording!.frames.length });
    await settle();
    expect(answer(root).trim()).toBe("AB");
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
