import { expect, it, vi } from "vitest";
import { watchCell } from "../lab/src/watchedCells";

/** The SHA-256 of "x". */
const DIGEST = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

/** A signal that says when cells come and go, and one that says when anything has changed. */
function signal() {
  const slots = new Set<() => void>();
  const [connect, disconnect] = [(slot: () => void) => slots.add(slot), (slot: () => void) => slots.delete(slot)];
  return { connect, disconnect, emit: () => slots.forEach((slot) => slot()), slots };
}

it("says what has become of a card's cell, and looks for it at no key that is pressed in another", async () => {
  vi.stubGlobal("isSecureContext", true);
  const [changed, contentChanged, end] = [signal(), signal(), new AbortController()];
  let [sources, looks]: [[string, boolean][], number] = [[["x", true]], 0];
  function* each() {
    looks += 1;
    for (const [source, editable] of sources)
      yield { id: "c7", getMetadata: () => editable, sharedModel: { getSource: () => source } };
  }
  const model = { cells: { changed, [Symbol.iterator]: each }, contentChanged };
  const states: (string | null)[] = [];
  const onState = (stale: string | null): void => void states.push(stale);
  const watched = { cellId: "c7", digest: DIGEST, change: "edit" as const, onState, signal: end.signal };
  watchCell(model as unknown as Parameters<typeof watchCell>[0], watched);
  await vi.waitFor(() => expect(states).toEqual([null]));
  const before = looks;
  for (let key = 0; key < 50; key += 1) contentChanged.emit();
  expect(looks).toBe(before);
  const becomes = async (state: string, ...next: [string, boolean][]): Promise<void> => {
    sources = next;
    changed.emit();
    contentChanged.emit();
    await vi.waitFor(() => expect(states.at(-1)).toBe(state));
  };
  await becomes("changed", ["other", true]);
  await becomes("locked", ["x", false]);
  await becomes("changed", ["x", true], ["x", true]); // two have its id
  end.abort();
  expect(changed.slots.size + contentChanged.slots.size).toBe(0);
  vi.unstubAllGlobals();
});
