/** Runs of hundreds of calls, and runs that are shown before their past is read again. */
import { expect, test } from "vitest";
import { happens, PlayedSocket, Recording, runtime, sessionWith, settle, show, usePage, view } from "./page";

usePage();

const CALLS = 200;
const cards = (root: HTMLElement): number => root.querySelectorAll("[data-tool-call-id][role=group]").length;

function many(run: Recording): void {
  for (let number = 0; number < CALLS; number += 1)
    run.did(`t${number}`, "run_python", { code: `print(${number})` }, 10);
}

test("all of a long run comes into the page, in order, and what comes later is there at once", async () => {
  const root = await show(many);
  await settle(500);
  const ids = [...root.querySelectorAll<HTMLElement>("[data-tool-call-id][role=group]")].map(
    (one) => one.dataset["toolCallId"],
  );
  expect(ids).toEqual(Array.from({ length: CALLS }, (_, number) => `t${number}`));
  await happens((run) => run.ask("new", "run_python", { code: "1" }));
  expect(cards(root)).toBe(CALLS + 1);
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
