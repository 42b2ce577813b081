import { beforeEach, expect, it, vi } from "vitest";
import { connectsAhead, loadsAhead } from "../lab/src/ahead";
import { loadAhead } from "../src/served";

vi.mock("../src/served", () => ({ loadAhead: vi.fn() }));

type Opened = (tracker: unknown, panel: unknown) => void;

/** Opens a notebook with these cells; resolves when it has been looked at. */
async function open(...cells: { type: string; source: string }[]): Promise<void> {
  const widgets = cells.map(({ type, source }) => ({ model: { type, sharedModel: { getSource: () => source } } }));
  const opened: Opened[] = [];
  loadsAhead({ widgetAdded: { connect: (one: Opened) => opened.push(one) } } as never);
  opened[0]!(null, { context: { ready: Promise.resolve() }, content: { widgets } });
  await Promise.resolve();
}

beforeEach(() => vi.mocked(loadAhead).mockClear());

it.each(["%%agent\nWhat is here?", "%load_ext agent_kernel", "import agent_kernel as ak"])(
  "loads the cards ahead where a cell has %j",
  async (source) => {
    await open({ type: "code", source: "1 + 1" }, { type: "code", source });
    expect(loadAhead).toHaveBeenCalledTimes(1);
  },
);

it("loads nothing for a notebook without a prompt", async () => {
  await open({ type: "code", source: "# agent" }, { type: "markdown", source: "%%agent" });
  expect(loadAhead).not.toHaveBeenCalled();
});

const shows = (path: string) => ({ context: { path, ready: Promise.resolve() } });
const goesOn = (conversation_id: string, notebook: string | null) => ({ conversation_id, notebook });

it("connects the conversations of open runs ahead where a notebook shows them, each once", () => {
  const connect = connectsAhead();
  const panel = shows("a.ipynb");
  connect([panel], [goesOn("conv_1", "a.ipynb"), goesOn("conv_1", "a.ipynb"), goesOn("conv_2", "b.ipynb")]);
  connect([panel], [goesOn("conv_1", "a.ipynb"), goesOn("conv_3", "a.ipynb")]); // this one began in the page
  connect([panel, shows("b.ipynb")], [goesOn("conv_1", "a.ipynb"), goesOn("conv_2", "b.ipynb")]);
  expect(vi.mocked(loadAhead).mock.calls).toEqual([[["conv_1"]], [["conv_2"]]]);
});

it("connects no more than a few, and nothing for runs without a notebook", () => {
  const connect = connectsAhead();
  const many = Array.from({ length: 50 }, (_, number) => goesOn(`conv_${number}`, "a.ipynb"));
  connect([shows("a.ipynb")], many);
  connect([shows("c.ipynb")], [goesOn("conv_1", null), goesOn("conv_2", "a.ipynb")]);
  expect(vi.mocked(loadAhead).mock.calls).toEqual([[["conv_0", "conv_1", "conv_2", "conv_3"]]]);
});
