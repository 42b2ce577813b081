/** A page says which runs it shows: a cell that was cut and pasted is called deleted, and its run must go on. */
import { expect, test } from "vitest";
import client from "../src/index";
import { asks } from "./cards";
import { runtime, PlayedSocket, Recording, settle, show, usePage, view } from "./page";

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
  const recording = runtime.recording as Recording;
  const traits = {
    conversation_id: recording.conversation,
    run_id: "run_other",
    prompt: "p",
    transport: "server",
    unserved: false,
  };
  const model = {
    get: <Name extends keyof typeof traits>(name: Name) => traits[name],
    on: () => undefined,
    off: () => undefined,
    send: () => undefined,
  };
  const el = document.body.appendChild(document.createElement("div"));
  for (let turn = 0; turn < 2; turn += 1) {
    const dispose = client.render({ model, el });
    await settle();
    dispose();
    await settle();
  }
  const ours = said().filter(([id]) => id === "run_other");
  expect(ours).toEqual([
    ["run_other", true],
    ["run_other", false],
    ["run_other", true],
    ["run_other", false],
  ]);
});
