import { describe, expect, test } from "vitest";
import { cardCommand, type Key, type Place } from "../src/keyboard";
import { button, card, decisions, key, press, settle, show, usePage } from "./page";

const NO_KEY: Key = { key: "", repeat: false, shiftKey: false, ctrlKey: false, metaKey: false, altKey: false, isComposing: false };
const CARD: Place = { panel: "none", field: "none" };
const meaning = (key: Partial<Key>, place: Partial<Place> = {}): unknown => cardCommand({ ...NO_KEY, ...key }, { ...CARD, ...place })?.kind ?? null;

describe("a key on a card", () => {
  test.each([
    ["a", "approve"],
    ["d", "deny"],
    ["e", "edit"],
    ["l", "allow"],
    ["A", "approve"],
    ["ArrowDown", "next"],
    ["ArrowUp", "previous"],
    ["3", "choose"],
    ["s", null],
    ["Enter", null],
  ])("%s means %s", (name, kind) => {
    expect(meaning({ key: name })).toBe(kind);
  });

  test("with Shift answers all", () => {
    expect(meaning({ key: "A", shiftKey: true })).toBe("approve-all");
    expect(meaning({ key: "D", shiftKey: true })).toBe("deny-all");
    expect(meaning({ key: "E", shiftKey: true })).toBeNull();
  });

  test("that is held counts once", () => {
    expect(meaning({ key: "a", repeat: true })).toBeNull();
  });

  test("with Ctrl, Command or Alt belongs to the notebook or the browser", () => {
    for (const modifier of ["ctrlKey", "metaKey", "altKey"] as const) expect(meaning({ key: "a", [modifier]: true })).toBeNull();
  });

  test("in a field is text, but for Enter in Reason, Ctrl Enter and Esc", () => {
    expect(meaning({ key: "a" }, { field: "text" })).toBeNull();
    expect(meaning({ key: "A", shiftKey: true }, { field: "line" })).toBeNull();
    expect(meaning({ key: "2" }, { field: "text" })).toBeNull();
    expect(meaning({ key: "Enter" }, { field: "line", panel: "reason" })).toBe("send");
    expect(meaning({ key: "Enter", shiftKey: true }, { field: "line", panel: "reason" })).toBeNull();
    expect(meaning({ key: "Enter" }, { field: "text", panel: "edit" })).toBeNull();
    expect(meaning({ key: "Enter", metaKey: true }, { field: "text", panel: "edit" })).toBe("send");
    expect(meaning({ key: "Escape" }, { field: "text", panel: "edit" })).toBe("back");
  });

  test("that completes a word in an input method is left alone", () => {
    expect(meaning({ key: "Enter", isComposing: true }, { field: "line", panel: "reason" })).toBeNull();
  });
});

describe("on the page", () => {
  usePage();

  test("A approves the card that has the focus", async () => {
    const root = await show((run) => run.ask("t1", "run_python", { code: "1" }).ask("t2", "run_python", { code: "2" }));
    card(root, "t2").focus();
    await key(card(root, "t2"), "a");
    expect(decisions().map((one) => [one.approval_id, one.approved])).toEqual([["apr_t2", true]]);
  });

  test("D opens Reason, letters are text there, Enter sends", async () => {
    const root = await show((run) => run.ask("t1", "run_python", { code: "1" }));
    await key(card(root, "t1"), "d");
    const field = card(root, "t1").querySelector("textarea")!;
    expect(document.activeElement).toBe(field);
    field.value = "dad, abba: no";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    await key(field, "a");
    await key(field, "d");
    expect(decisions()).toHaveLength(0);
    const enter = await key(field, "Enter");
    expect(enter.defaultPrevented).toBe(true);
    expect(decisions()).toEqual([{ type: "approval_response", approval_id: "apr_t1", digest: "digest_t1", approved: false, reason: "dad, abba: no" }]);
  });

  test("E opens the editor and Esc goes back", async () => {
    const root = await show((run) => run.ask("t1", "run_python", { code: "x = 1" }));
    await key(card(root, "t1"), "e");
    const editor = card(root, "t1").querySelector(".cm-content")!;
    expect(editor.textContent).toContain("x = 1");
    await key(editor, "Escape");
    expect(card(root, "t1").querySelector(".cm-content")).toBeNull();
    expect(document.activeElement).toBe(card(root, "t1"));
  });

  test("L opens Always allow only where a rule may be saved", async () => {
    const root = await show((run) => run.ask("t1", "run_python", { code: "1" }).ask("t2", "run_python", { code: "2" }, { scopes: ["once"] }));
    await key(card(root, "t1"), "l");
    await key(card(root, "t2"), "l");
    expect(root.querySelectorAll("[role=dialog]")).toHaveLength(1);
    expect(card(root, "t1").querySelector("[role=dialog]")).not.toBeNull();
  });

  test("Shift A approves all that wait", async () => {
    const root = await show((run) => run.ask("t1", "run_python", { code: "1" }).ask("t2", "run_python", { code: "2" }));
    await key(card(root, "t1"), "A", { shiftKey: true });
    expect(decisions().map((one) => one.approval_id)).toEqual(["apr_t1", "apr_t2"]);
  });

  test("the arrows go from call to call", async () => {
    const root = await show((run) => run.ask("t1", "run_python", { code: "1" }).ask("t2", "run_python", { code: "2" }));
    card(root, "t1").focus();
    await key(card(root, "t1"), "ArrowDown");
    expect(document.activeElement).toBe(card(root, "t2"));
    await key(card(root, "t2"), "ArrowUp");
    expect(document.activeElement).toBe(card(root, "t1"));
  });

  test("keys outside of a card do nothing", async () => {
    const root = await show((run) => run.ask("t1", "run_python", { code: "1" }));
    await key(root.querySelector(".ak-run")!, "a");
    await key(document.body, "a");
    expect(decisions()).toHaveLength(0);
  });

  test("after a decision the focus stays on the card, where no letter is the notebook's", async () => {
    const root = await show((run) => run.ask("t1", "run_python", { code: "1" }));
    button(card(root, "t1"), "Approve").focus();
    await press(card(root, "t1"), "Approve");
    expect(document.activeElement).toBe(card(root, "t1"));
    expect(root.querySelector(".ak-run")?.getAttribute("data-lm-suppress-shortcuts")).toBe("true");
  });

  test("for 400 ms after a decision the next card takes neither clicks nor keys", async () => {
    const root = await show((run) => run.ask("t1", "run_python", { code: "1" }).ask("t2", "run_python", { code: "2" }));
    await press(card(root, "t1"), "Approve");
    await press(card(root, "t2"), "Approve");
    await key(card(root, "t2"), "a");
    expect(button(card(root, "t2"), "Approve").getAttribute("aria-disabled")).toBe("true");
    expect(decisions()).toHaveLength(1);
    await settle(400);
    await press(card(root, "t2"), "Approve");
    expect(decisions()).toHaveLength(2);
  });

  test("a card that appears does not take the focus", async () => {
    const before = document.activeElement;
    await show((run) => run.ask("t1", "run_python", { code: "1" }));
    expect(document.activeElement).toBe(before);
  });

  test("a number chooses an answer to a question, Ctrl Enter sends it", async () => {
    const root = await show((run) => run.propose("q1", "ask_user", { question: "Which?", choices: ["One", "Two"] }).start("q1", "ask_user", { question: "Which?", choices: ["One", "Two"] }));
    await key(card(root, "q1"), "2");
    await key(card(root, "q1"), "Enter", { ctrlKey: true });
    const { PlayedSocket } = await import("./page");
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_result", tool_call_id: "q1", output: "Two" });
  });
});
