import { beforeEach, expect, it, vi } from "vitest";
import { loadsAhead } from "../lab/src/ahead";
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
