import { beforeEach, expect, it, vi } from "vitest";
import { connectsAhead, loadsAhead } from "../lab/src/ahead";
import { loadAhead } from "../src/served";

vi.mock("../src/served", () => ({ loadAhead: vi.fn() }));

type Opened = (tracker: unknown, panel: unknown) => void;

/** Opens a notebook with these cells; resolves when it has been looked at. */
async function open(...cells: { type: string; source: string }[]) {
  const widgets = cells.map(({ type, source }) => ({ model: { type, sharedModel: { getSource: () => source } } }));
  const opened: Opened[] = [];
  loadsAhead({ widgetAdded: { connect: (one: Opened) => opened.push(one) } } as never);
  const session = { kernelChanged: signal<{ newValue: unknown }>() };
  opened[0]!(null, { context: { ready: Promise.resolve() }, content: { widgets }, sessionContext: session });
  await Promise.resolve();
  return session;
}

function signal<T>(): { connect(heard: (sender: unknown, value: T) => void): void; emit(value: T): void } {
  const all: ((sender: unknown, value: T) => void)[] = [];
  return { connect: (heard) => void all.push(heard), emit: (value) => all.forEach((heard) => heard(null, value)) };
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

it("connects the conversation of a run as the kernel opens its widget, and of nothing else", async () => {
  const session = await open();
  const kernel = { anyMessage: signal<unknown>() };
  session.kernelChanged.emit({ newValue: null });
  session.kernelChanged.emit({ newValue: kernel });
  const say = (msg_type: string, content: unknown) =>
    kernel.anyMessage.emit({ msg: { header: { msg_type }, content } });
  const openWidget = (state?: object) => say("comm_open", { target_name: "jupyter.widget", data: { state } });
  openWidget({ conversation_id: "conv_1", run_id: "run_1", prompt: "Go." });
  openWidget({ conversation_id: "conv_2", run_id: "run_2", transport: "kernel" });
  openWidget({ conversation_id: 3, run_id: "run_3" });
  openWidget({ value: 5 });
  openWidget();
  say("comm_open", {});
  say("stream", { name: "stdout", text: "conv_4" });
  expect(vi.mocked(loadAhead).mock.calls).toEqual([[["conv_1"]]]);
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

it("connects nothing for runs without a notebook", () => {
  const connect = connectsAhead();
  connect([shows("c.ipynb")], [goesOn("conv_1", null), goesOn("conv_2", "a.ipynb")]);
  expect(loadAhead).not.toHaveBeenCalled();
});
