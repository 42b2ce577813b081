/** A page says which runs it shows: a cell that was cut and pasted is called deleted, and its run must go on. */
import { expect, test } from "vitest";
import { asks } from "./cards";
import { closeViews, runtime, PlayedSocket, Recording, settle, show, usePage, view } from "./page";

usePage();

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
