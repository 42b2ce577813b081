/** When what has come is drawn. */
import { expect, test, vi } from "vitest";
import { button, card, decisions, happens, key, PlayedSocket, runtime, settle, show, usePage } from "./page";
import type { Recording } from "./frames.js";

usePage();

/** A conversation in which an answer has begun. */
const begun = (): Promise<HTMLElement> => show((run) => run.say("An earlier answer.").say("It begins.", false));

const answer = (root: HTMLElement): string =>
  [...root.querySelectorAll("[data-role=answer]")].at(-1)?.textContent?.trim() ?? "";

/** The tokens of a text that goes on with the answer at hand. */
function goesOn(run: Recording, text: string): void {
  const { message_id } = run.frames.findLast((frame: { type: string }) => frame.type === "token");
  for (const content of text.match(/\S+\s*/g) ?? []) run.send({ type: "token", message_id, content });
}

test("an answer is drawn before the next key or click is taken, which comes too soon for what is behind it", async () => {
  const root = await show((run) => run.ask("t1", "run_python", { code: "1" }).ask("t2", "run_python", { code: "2" }));
  card(root, "t1").focus();
  button(card(root, "t1"), "Approve").click();
  await key(document.activeElement!, "a");
  expect(card(root, "t1").textContent).toContain("You chose Approve");
  expect(document.activeElement).toBe(card(root, "t2"));
  await settle(500);
  button(card(root, "t2"), "Approve").click();
  button(card(root, "t2"), "Deny").click();
  await settle();
  expect(decisions()).toMatchObject([{ approval_id: "apr_t1" }, { approval_id: "apr_t2", approved: true }]);
  expect(card(root, "t2").textContent).toContain("You chose Approve");
});

test("what came as the page was put into the background is shown there, and read out", async () => {
  const root = await begun();
  // A page in the background gets none of the frames that it has asked for.
  const frames = vi.spyOn(window, "requestAnimationFrame").mockImplementation(() => 0);
  const hidden = vi.spyOn(document, "hidden", "get").mockReturnValue(false);
  try {
    goesOn(runtime.recording!, "And ");
    PlayedSocket.last.catchUp();
    hidden.mockReturnValue(true);
    document.dispatchEvent(new Event("visibilitychange"));
    goesOn(runtime.recording!, "on.");
    PlayedSocket.last.catchUp();
    await settle(400);
    expect(answer(root)).toBe("It begins.And on.");
  } finally {
    frames.mockRestore();
    hidden.mockRestore();
  }
});

test("the answer is whole when it ends, and when something else happens in the same frame", async () => {
  const root = await begun();
  await happens((run) => {
    goesOn(run, "one two ");
    run.propose("late", "run_python", null);
    goesOn(run, "three ");
  });
  expect(answer(root)).toBe("It begins.one two three");
  expect(card(root, "late").dataset["state"]).toBe("proposed");
  await happens((run) => goesOn(run, "four"));
  expect(answer(root)).toBe("It begins.one two three four");
});
