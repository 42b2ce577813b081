import { currentCompletions } from "@codemirror/autocomplete";
import { EditorView } from "@codemirror/view";
import { afterEach, describe, expect, test, vi } from "vitest";
import { COMPLETE, type Complete, type Completions } from "../src/ui/events";
import { asks } from "./cards";
import { card, key, show, usePage } from "./page";

usePage();

let stop: () => void = () => undefined;
afterEach(() => stop());

/** An application whose extension answers this, or has no kernel around the output. */
function extension(found: Completions | null, hasKernel = true): Complete[] {
  const asked: Complete[] = [];
  const answer = (event: Event): void => {
    const detail = (event as CustomEvent<Complete | null>).detail;
    if (hasKernel) event.preventDefault();
    if (!hasKernel || detail === null) return;
    asked.push(detail);
    detail.answer(found);
  };
  document.addEventListener(COMPLETE, answer);
  stop = () => document.removeEventListener(COMPLETE, answer);
  return asked;
}

/** The editor of a call's code, with the cursor at its end. */
async function edit(code: string): Promise<{ view: EditorView; root: HTMLElement }> {
  const root = await show(asks);
  await key(card(root, "t1"), "e");
  const view = EditorView.findFromDOM(card(root, "t1").querySelector<HTMLElement>(".cm-editor")!)!;
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: code }, selection: { anchor: code.length } });
  return { view, root };
}

const offered = (view: EditorView): string[] => currentCompletions(view.state).map(({ label }) => label);

describe("Tab in a card's editor", () => {
  test("completes by the notebook's kernel", async () => {
    const asked = extension({ from: 5, to: 7, options: [{ label: "sales" }, { label: "salt" }] });
    const { view } = await edit("'😀'\nsa");
    await key(view.contentDOM, "Tab");
    await vi.waitFor(() => expect(offered(view)).toEqual(["sales", "salt"]));
    expect(asked).toMatchObject([{ code: "'😀'\nsa", position: 7 }]);
  });
});
