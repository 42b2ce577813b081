/** Runs of hundreds of calls: they come into the page in slices, and are there before their past is read again. */
import { expect, test } from "vitest";
import { happens, PlayedSocket, Recording, runtime, sessionWith, settle, show, usePage, view } from "./page";

usePage();

const CALLS = 200;
const cards = (root: HTMLElement): number => root.querySelectorAll("[data-tool-call-id][role=group]").length;

function many(run: Recording): void {
  for (let number = 0; number < CALLS; number += 1)
    run.did(`t${number}`, "run_python", { code: `print(${number})` }, 10);
}

/** Opens a long run; how many cards came into the page at each time that some came. */
async function openInSlices(): Promise<{ root: HTMLElement; slices: number[] }> {
  const recording = new Recording("slices", { age: 5_000 });
  many(recording);
  runtime.recording = recording;
  const root = view(recording);
  const counts: number[] = [];
  for (let frame = 0; frame < 120; frame += 1) {
    await settle(4);
    if (cards(root) !== counts.at(-1)) counts.push(cards(root));
  }
  expect(counts.at(-1)).toBe(CALLS);
  const came = counts.map((count, index) => count - (counts[index - 1] ?? 0));
  return { root, slices: came.filter((count) => count > 0) };
}

test("a long run comes into the page in slices, in order, and all of it comes", async () => {
  const { root, slices: found } = await openInSlices();
  expect(found.length).toBeGreaterThan(3);
  expect(found[0]).toBeLessThanOrEqual(10);
  found.slice(1).forEach((size, index) => expect(size).toBeLessThanOrEqual(2 * found[index]!));
  const ids = [...root.querySelectorAll<HTMLElement>("[data-tool-call-id][role=group]")].map(
    (one) => one.dataset["toolCallId"],
  );
  expect(ids).toEqual(Array.from({ length: CALLS }, (_, number) => `t${number}`));
}, 60_000);

test("what comes later is there at once", async () => {
  const root = await show(many);
  await settle(500);
  await happens((run) => run.ask("new", "run_python", { code: "1" }));
  expect(cards(root)).toBe(CALLS + 1);
});

test("a page shows the snapshot while the events of the past are read again, and then what only they have", async () => {
  const recording = new Recording("replayed", { age: 5_000 });
  recording.say("An earlier answer.").say("Half an ans", false);
  const said = recording.frames.find((frame: { type: string }) => frame.type === "message");
  const session = sessionWith(recording, "An earlier answer.", said.message_id);
  recording.session = () => session;
  runtime.recording = recording;
  const { frames } = recording;
  recording.frames = [];
  const root = view(recording);
  await settle();
  expect(root.textContent).toContain("An earlier answer.");
  for (const frame of frames.slice(0, -1)) PlayedSocket.last.say(frame);
  await settle();
  expect(root.textContent).not.toContain("Half an ans");
  PlayedSocket.last.say(frames.at(-1));
  await settle();
  expect(root.textContent).toContain("An earlier answer.");
  expect(root.textContent).toContain("Half an ans");
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
