/** What is done at each key in a notebook does not grow with its cells. */
import { expect, it, vi } from "vitest";
import { watchDrawn } from "../lab/src/drawnCells";
import { watchCell } from "../lab/src/watchedCells";

type Slot = () => void;

function signal() {
  const slots = new Set<Slot>();
  const connect = (slot: Slot) => slots.add(slot);
  const disconnect = (slot: Slot) => slots.delete(slot);
  return { connect, disconnect, emit: () => slots.forEach((slot) => slot()), count: () => slots.size };
}

/** A notebook that counts how many of its cells are looked at. */
function notebook(size: number) {
  let sources = Array.from({ length: size }, (_, index) => ({ id: `c${index}`, source: "x", editable: true }));
  let read = 0;
  const changed = signal();
  const contentChanged = signal();
  const cells = {
    changed,
    *[Symbol.iterator]() {
      for (const one of sources) {
        read += 1;
        yield { id: one.id, getMetadata: () => one.editable, sharedModel: { getSource: () => one.source } };
      }
    },
  };
  return {
    model: { cells, contentChanged } as unknown as Parameters<typeof watchCell>[0],
    type: (index: number, source: string) => {
      sources[index]!.source = source;
      contentChanged.emit();
    },
    replace: (next: typeof sources) => {
      sources = next;
      changed.emit();
      contentChanged.emit();
    },
    read: () => read,
    connected: () => changed.count() + contentChanged.count(),
  };
}

/** The SHA-256 of "x". */
const DIGEST = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

it("looks for a card's cell when cells come and go, and at no key", async () => {
  vi.stubGlobal("isSecureContext", true);
  const one = notebook(5_000);
  const states: (string | null)[] = [];
  const end = new AbortController();
  watchCell(one.model, {
    cellId: "c7",
    digest: DIGEST,
    change: "edit",
    onState: (stale) => states.push(stale),
    signal: end.signal,
  });
  await vi.waitFor(() => expect(states).toEqual([null]));
  const first = one.read();
  for (let key = 0; key < 50; key += 1) one.type(4_000, `y${key}`);
  expect(one.read()).toBe(first);
  one.type(7, "other");
  await vi.waitFor(() => expect(states).toEqual([null, "changed"]));
  one.replace([{ id: "c7", source: "x", editable: false }]);
  await vi.waitFor(() => expect(states).toEqual([null, "changed", "locked"]));
  one.replace([
    { id: "c7", source: "x", editable: true },
    { id: "c7", source: "x", editable: true },
  ]);
  await vi.waitFor(() => expect(states).toEqual([null, "changed", "locked", "changed"]));
  end.abort();
  expect(one.connected()).toBe(0);
  vi.unstubAllGlobals();
});

it("looks at cells once a frame where outputs are drawn, and not for what is typed", async () => {
  const node = document.createElement("div");
  node.innerHTML =
    '<div class="jp-Cell"><div class="jp-InputArea-editor"><p></p></div><div class="jp-OutputArea"><p></p></div></div>';
  const editor = node.querySelector(".jp-InputArea-editor p")!;
  const outputs = node.querySelector(".jp-OutputArea p")!;
  const told: number[] = [];
  const disposed = signal();
  const panel = { content: { node }, disposed, isDisposed: false } as unknown as Parameters<typeof watchDrawn>[0];
  watchDrawn(panel, (cells) => told.push(cells.size));
  for (let key = 0; key < 50; key += 1) editor.append(`${key}`);
  for (let line = 0; line < 50; line += 1) outputs.append(`${line}`);
  await vi.waitFor(() => expect(told).toEqual([1]));
  editor.append("more");
  node.append(document.createElement("div"));
  await vi.waitFor(() => expect(told).toEqual([1, 0]));
  disposed.emit();
});
