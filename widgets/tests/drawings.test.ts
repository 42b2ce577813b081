/** Outputs that the notebook's own renderers draw. The renderers are played: real ones are in the browser tests. */
import { expect, test } from "vitest";
import type { LuminoWidget, Renderer, Rendermime } from "../src/card/notebookRenderers";
import { PYTHON } from "./cards";
import { runtime, card, closeViews, happens, notebook, PlayedSocket, settle, show, usePage, view } from "./page";

usePage();

const PLOTLY = "application/vnd.plotly.v1+json";
const RANKS = [PLOTLY, "text/html", "image/svg+xml", "image/png", "text/latex", "text/plain"];

/** A widget that remembers whether it is on the page. */
function lumino(text = ""): LuminoWidget & { attached: number } {
  const node = document.createElement("div");
  node.textContent = text;
  const widget = {
    node,
    isDisposed: false,
    attached: 0,
    processMessage: (message: unknown) => {
      const { type } = message as { type: string };
      widget.attached += type === "after-attach" ? 1 : type === "before-detach" ? -1 : 0;
    },
    dispose: () => void (widget.isDisposed = true),
  };
  return widget;
}

class PlayedRendermime implements Rendermime {
  readonly made: (Renderer & { attached: number })[] = [];
  readonly models: { data: Record<string, unknown>; metadata: Record<string, unknown>; trusted: boolean }[] = [];
  fails = false;
  preferredMimeType(bundle: object): string | undefined {
    return RANKS.find((mime) => mime in bundle);
  }
  createModel(model: never): unknown {
    this.models.push(model);
    return model;
  }
  createRenderer(mime: string): Renderer {
    const renderer = Object.assign(lumino(), {
      renderModel: async (model: { data: Record<string, unknown> }) => {
        if (this.fails) throw new Error("no such chart");
        renderer.node.textContent = `drawn ${String(model.data[mime])}`;
      },
    });
    this.made.push(renderer);
    return renderer;
  }
}

function display(data: object, more: object = {}): object {
  return { kind: "display", data, metadata: {}, ...more };
}

const drawnIn = (root: HTMLElement): (string | null)[] =>
  [...card(root, "t1").querySelectorAll(".ak-drawn")].map((one) => one.textContent);

async function shows(...outputs: object[]): Promise<HTMLElement> {
  return show((run) => run.did("t1", "run_python", PYTHON, 5, outputs as never[]));
}

/** A notebook that draws. */
function renderers(): PlayedRendermime {
  const rendermime = new PlayedRendermime();
  notebook.manager = { rendermime };
  return rendermime;
}

test("a chart is drawn by the notebook, with its metadata and trusted as a cell's output is", async () => {
  const rendermime = renderers();
  const root = await shows(display({ [PLOTLY]: "bars", "text/plain": "Figure" }, { metadata: { [PLOTLY]: { w: 1 } } }));
  expect(drawnIn(root)).toEqual(["drawn bars"]);
  expect(rendermime.models).toMatchObject([{ trusted: true, metadata: { [PLOTLY]: { w: 1 } } }]);
  expect(rendermime.made[0]?.attached).toBe(1);
});

test("a card that folds and unfolds shows the same drawing, whose scripts do not run again", async () => {
  const rendermime = renderers();
  const root = await shows(display({ "text/html": "<script>once()</script>" }));
  const head = card(root, "t1").querySelector<HTMLElement>(".ak-head")!;
  head.click();
  await settle();
  expect(card(root, "t1").querySelector(".ak-drawn")?.closest("[hidden]")).not.toBeNull();
  head.click();
  await settle();
  expect(card(root, "t1").querySelector("[hidden] .ak-drawn")).toBeNull();
  expect(rendermime.models).toHaveLength(1);
  expect(rendermime.made[0]?.attached).toBe(1);
});

test("a key pressed in a drawn widget decides nothing", async () => {
  renderers();
  const root = await show((run) =>
    run
      .ask("t2", "run_python", PYTHON)
      .did("t1", "run_python", PYTHON, 5, [display({ "text/html": "slider" }) as never]),
  );
  const handle = card(root, "t1").querySelector<HTMLElement>(".ak-drawn")!.firstElementChild as HTMLElement;
  handle.tabIndex = 0;
  for (const key of ["a", "d", "A", "ArrowDown"]) {
    const event = new KeyboardEvent("keydown", { key, shiftKey: key === "A", bubbles: true, cancelable: true });
    handle.dispatchEvent(event);
    expect(event.defaultPrevented).toBe(false);
  }
  await settle();
  expect(PlayedSocket.sent.filter((command) => command.type === "approval_response")).toEqual([]);
});

test("two views of a run have a drawing each, and what is cleared or closed is disposed of", async () => {
  const rendermime = renderers();
  const root = await shows(display({ "text/html": "old" }));
  const other = view(runtime.recording!);
  await settle();
  expect([drawnIn(root), drawnIn(other)]).toEqual([["drawn old"], ["drawn old"]]);
  const disposed = (): boolean[] => rendermime.made.map((one) => one.isDisposed);
  await happens((run) =>
    run.output("t1", 1, { kind: "clear" }).output("t1", 2, display({ "text/html": "new" }) as never),
  );
  expect(disposed()).toEqual([true, true, false, false]);
  closeViews();
  expect(disposed()).toEqual([true, true, true, true]);
});
