import { afterEach, describe, expect, test } from "vitest";
import { ACTIONS } from "../src/card/looks";
import { keyName, type Field, type Key } from "../src/ui/keys";
import {
  button,
  card,
  closeViews,
  decisions,
  fill,
  happens,
  key,
  PlayedSocket,
  press,
  settle,
  show,
  usePage,
  type Recording,
} from "./page";

const NO_KEY: Key = {
  key: "",
  repeat: false,
  shiftKey: false,
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  isComposing: false,
  keyCode: 0,
};
const named = (key: Partial<Key>, field: Field = "none"): string | null => keyName({ ...NO_KEY, ...key }, field);

test.each<[Partial<Key>, Field, string | null]>([
  [{ key: "a" }, "none", "A"],
  [{ key: "A", shiftKey: true }, "none", "Shift+A"],
  [{ key: "ArrowDown" }, "none", "ArrowDown"],
  [{ key: "ArrowDown", shiftKey: true }, "none", null], // it selects cells
  [{ key: "a", repeat: true }, "none", null],
  [{ key: "a", ctrlKey: true }, "none", null], // the notebook's or the browser's
  [{ key: "a" }, "text", null],
  [{ key: "Enter" }, "line", "Enter"],
  [{ key: "Enter", isComposing: true }, "line", null],
  [{ key: "Enter", metaKey: true }, "text", "Control+Enter"],
  [{ key: "Escape" }, "text", "Escape"],
])("the key %j in a field of the kind %s is called %s", (key, field, name) => {
  expect(named(key, field)).toBe(name);
});

describe("on the page", () => {
  usePage();

  const waits = (run: Recording): Recording => run.ask("t1", "run_python", { code: "1" });
  const two = (run: Recording): Recording => waits(run).ask("t2", "run_python", { code: "2" });

  test("D opens Reason, letters are text there, Enter sends", async () => {
    const root = await show(waits);
    await key(card(root, "t1"), "d");
    const field = card(root, "t1").querySelector("textarea")!;
    expect(document.activeElement).toBe(field);
    await fill(field, "dad, abba: no");
    await key(field, "a");
    await key(field, "d");
    expect(decisions()).toHaveLength(0);
    const enter = await key(field, "Enter");
    expect(enter.defaultPrevented).toBe(true);
    expect(decisions()).toMatchObject([{ approval_id: "apr_t1", approved: false, reason: "dad, abba: no" }]);
  });

  test("the arrows go from call to call, and Shift A approves all that wait", async () => {
    const root = await show(two);
    card(root, "t1").focus();
    await key(card(root, "t1"), "ArrowDown");
    expect(document.activeElement).toBe(card(root, "t2"));
    await key(card(root, "t2"), "ArrowUp");
    expect(document.activeElement).toBe(card(root, "t1"));
    await key(card(root, "t1"), "A", { shiftKey: true });
    expect(decisions().map((one) => one.approval_id)).toEqual(["apr_t1", "apr_t2"]);
  });

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

  test("for 400 ms after a decision the next card takes neither clicks nor keys", async () => {
    const root = await show(two);
    await press(card(root, "t1"), "Approve");
    await press(card(root, "t2"), "Approve");
    await key(card(root, "t2"), "a");
    expect(button(card(root, "t2"), "Approve").getAttribute("aria-disabled")).toBe("true");
    await press(card(root, "t2"), "Deny");
    expect(card(root, "t2").querySelector("textarea, .ak-editor")).toBeNull();
    expect(decisions()).toHaveLength(1);
    await settle(400);
    await press(card(root, "t2"), "Approve");
    expect(decisions()).toHaveLength(2);
  });
});

describe("in a notebook", () => {
  usePage();

  /** A JupyterLab page: a cell with a run in it, and what reaches the page's own shortcuts. */
  async function inNotebook(
    build: Parameters<typeof show>[0],
  ): Promise<{ root: HTMLElement; cell: HTMLElement; heard: string[] }> {
    const root = await show(build);
    const cell = document.body.appendChild(document.createElement("div"));
    cell.className = "jp-Cell";
    cell.tabIndex = -1;
    cell.append(root);
    const heard: string[] = [];
    const listen = (event: KeyboardEvent): void =>
      void heard.push(`${event.key} on ${event.target === cell ? "cell" : (event.target as Element).tagName}`);
    document.addEventListener("keydown", listen);
    forget.push(() => document.removeEventListener("keydown", listen));
    return { root, cell, heard };
  }
  const forget: (() => void)[] = [];
  afterEach(() => forget.splice(0).forEach((one) => one()));
  const waits = (run: Recording): Recording => run.ask("t1", "run_python", { code: "1" });

  test("letters, digits and arrows on a card are heard by nobody else", async () => {
    const { root, heard } = await inNotebook(waits);
    card(root, "t1").focus();
    expect(document.activeElement?.hasAttribute("data-lm-suppress-shortcuts")).toBe(true);
    for (const name of ["b", "i", "0", "ArrowDown", "Delete", "Enter", "Dead", "Process"])
      await key(card(root, "t1"), name);
    await key(root.querySelector(".ak-badge")!, "b");
    expect(heard).toEqual([]);
  });

  test("Escape gives the focus back to the cell, and first closes what is open", async () => {
    const { root, cell, heard } = await inNotebook(waits);
    await key(card(root, "t1"), "d");
    await key(document.activeElement!, "Escape");
    expect(document.activeElement).toBe(card(root, "t1"));
    await key(card(root, "t1"), "Escape");
    expect(document.activeElement).toBe(cell);
    expect(heard).toEqual([]);
  });

  test("a call that waits later gets the focus where a decision left it, and not where the person went", async () => {
    const { root } = await inNotebook(waits);
    card(root, "t1").focus();
    await key(card(root, "t1"), "a");
    await happens(
      (run) =>
        void run.answer("t1", true).start("t1", "run_python", { code: "1" }).ask("t2", "run_python", { code: "2" }),
    );
    expect(document.activeElement).toBe(card(root, "t2"));
    await key(card(root, "t2"), "a");
    expect(decisions()).toHaveLength(1);
    await settle(400);
    await key(card(root, "t2"), "a");
    expect(decisions()).toHaveLength(2);
    root.querySelector<HTMLElement>(".ak-badge")!.focus();
    await happens((run) => void run.answer("t2", true).ask("t3", "run_python", { code: "3" }));
    expect(document.activeElement).toBe(root.querySelector(".ak-badge"));
  });

  test("a second Enter and letters that were meant for the question before answer none", async () => {
    const answers = () => PlayedSocket.sent.filter((one) => (one as { type: string }).type === "tool_result").length;
    const ask = (id: string) => (run: Recording) => void run.question(id, { question: "Name?", line: "text" });
    const { root } = await inNotebook(ask("q1"));
    const before = answers();
    const first = card(root, "q1").querySelector("input")!;
    first.focus();
    await key(first, "Enter");
    await happens((run) => ask("q2")(run.end("q1", "ask_user", "success")));
    const second = card(root, "q2").querySelector("input")!;
    expect(document.activeElement).toBe(second);
    await key(second, "Enter");
    await fill(second, "a");
    expect([answers(), second.value]).toEqual([before + 1, ""]);
    await settle(400);
    await fill(second, "Ana");
    await key(second, "Enter");
    expect(answers()).toBe(before + 2);
    expect(PlayedSocket.sent.at(-1)).toEqual({ type: "tool_result", tool_call_id: "q2", output: "Ana" });
  });

  test("a run that is gone leaves the focus to its cell, and what was still typed is dropped", async () => {
    const { root, cell, heard } = await inNotebook(waits);
    card(root, "t1").focus();
    await key(card(root, "t1"), "i");
    closeViews();
    expect(document.activeElement).toBe(cell);
    await key(cell, "i");
    await key(cell, "s", { ctrlKey: true });
    expect(heard).toEqual(["s on cell"]);
    await settle(1_000);
    await key(cell, "b");
    expect(heard).toEqual(["s on cell", "b on cell"]);
  });

  test.each(
    Object.values(ACTIONS)
      .flatMap(({ keys }): readonly string[] => keys)
      .filter((name) => /^[A-Z]$/.test(name))
      .map((name) => name.toLowerCase()),
  )(
    "%s, a letter of a card's buttons, does nothing to the cell for two seconds after the card has gone",
    async (letter) => {
      const { root, cell, heard } = await inNotebook(waits);
      await key(card(root, "t1"), "Escape"); // nobody types
      card(root, "t1").focus();
      closeViews();
      await settle(1_500);
      await key(cell, letter);
      expect(heard).toEqual([]);
      await settle(2_500);
      await key(cell, letter);
      expect(heard).toEqual([`${letter} on cell`]);
    },
  );
});
