/** What the tests of cards and runs share: a call of run_python, from the question to its end. */
import { EditorView } from "@codemirror/view";
import { buttons, card, type Recording } from "./page";

export const PYTHON = { code: "orders = orders.drop_duplicates()\norders.shape" };
export const asks = (run: Recording): Recording => run.ask("t1", "run_python", PYTHON);
export const runs = (run: Recording): Recording => asks(run).answer("t1", true).start("t1", "run_python", PYTHON);

/** What a card shows. */
export function shown(root: HTMLElement, id = "t1"): { state: string | undefined; text: string; buttons: string[] } {
  const one = card(root, id);
  return { state: one.dataset["state"], text: (one.textContent ?? "").replaceAll(/\s+/g, " "), buttons: buttons(one) };
}

/** Replace what is in a card's editor. */
export function write(place: Element, text: string): void {
  const view = EditorView.findFromDOM(place.querySelector<HTMLElement>(".cm-editor")!)!;
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
}
