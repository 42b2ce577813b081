import { expect, it } from "vitest";
import { putRun, rememberRuns, showsLostRuns } from "../lab/src/documents";
import type { ListedRun } from "../lab/src/listedRuns";

type Parts = Parameters<typeof showsLostRuns>;
type Output = Record<string, unknown>;
type Panels = [Panel, Panel, Panel, Panel];
type Panel = ReturnType<typeof panel>;

const RUN = { run_id: "run_1", notebook: "a.ipynb", kernel_id: "k1", cell_id: "c", shown: false } as ListedRun;
const OUTPUT = {
  output_type: "display_data",
  data: {
    "application/vnd.agent-kernel.run+json": { run_id: "run_1" },
    "text/plain": expect.stringContaining("going on"),
  },
  metadata: { agent_kernel_open_run: "run_1" },
};

const LIVE = { output_type: "display_data", data: { "application/vnd.agent-kernel.run+json": { run_id: "run_1" } } };

function signal<T>() {
  const slots: ((sender: null, value: T) => void)[] = [];
  return {
    connect: (slot: (typeof slots)[0]) => void slots.push(slot),
    emit: (one: T) => slots.forEach((f) => f(null, one)),
  };
}

/** As a file has it that was not saved since the run began. */
function cell(all: Output[] = []) {
  const [changed, stateChanged] = [signal<{ newValues: Output[] }>(), signal<{ name: string }>()];
  const fromJSON = (next: Output[]) => {
    all = [...next];
    changed.emit({ newValues: all });
  };
  const outputs = {
    changed,
    fromJSON,
    add: (output: Output) => fromJSON([...all, output]),
    clear: () => fromJSON([]),
    get: (index: number) => all[index],
    set: (index: number, output: Output) => fromJSON(all.with(index, output)),
    toJSON: () => all,
    get length() {
      return all.length;
    },
  };
  const sharedModel = { getOutputs: () => all };
  const model = { id: "c", type: "code", outputs, sharedModel, stateChanged, executionState: "idle" };
  const turns = (state: string) => {
    model.executionState = state;
    stateChanged.emit({ name: "executionState" });
  };
  return { model, turns };
}

function panel({ path = "a.ipynb", kernel = "k1", outputs = [] as Output[] } = {}) {
  const widgets = [cell(outputs)];
  const cells = Object.assign([widgets[0]!.model], { changed: signal<{ newValues: unknown[] }>() });
  const model = { readOnly: false, cells };
  rememberRuns(model as unknown as Parameters<typeof rememberRuns>[0]);
  /** Has another cell in its place, as one that was loaded, undone or given another type. */
  const replaces = (next = cell()) => {
    widgets[0] = next;
    cells[0] = next.model;
    cells.changed.emit({ newValues: [next.model] });
  };
  return {
    content: { widgets, model },
    context: { isReady: true, localPath: path },
    sessionContext: { session: { kernel: { id: kernel } } },
    replaces,
  };
}

/** A page with these notebooks, and what the server lists in it. */
function page(...panels: Panel[]) {
  const [listed, executions] = [signal<readonly ListedRun[]>(), signal<{ cell: ReturnType<typeof cell> }>()];
  const tracker = { forEach: (each: (one: unknown) => void) => panels.forEach(each) };
  showsLostRuns(...([tracker, { listed }, executions] as unknown as Parts));
  /** As JupyterLab runs a cell: the outputs go, and it is running until its kernel has done it. */
  const runs = (one: Panel) => {
    executions.emit({ cell: cellOf(one) });
    cellOf(one).model.outputs.clear();
    cellOf(one).turns("running");
  };
  return { list: (...open: ListedRun[]) => listed.emit(open), runs };
}

const cellOf = (one: Panel) => one.content.widgets[0]!;
const outputs = (one: Panel): unknown[] => [...cellOf(one).model.outputs.toJSON()];

it("shows a run again after a reload, marked for the server, and once more when the file is loaded again", () => {
  const one = panel();
  const { list } = page(one);
  list();
  list(RUN);
  list(RUN);
  expect(outputs(one)).toEqual([OUTPUT]);
  one.replaces();
  list(RUN);
  expect(outputs(one)).toEqual([OUTPUT]);
});

const RECORD = { output_type: "display_data", data: { "text/html": '<div data-agent-record="run_0">It is 42.</div>' } };
const PRINTED = { output_type: "display_data", data: {}, metadata: { agent_kernel: { run: "run_0", call: 1 } } };
const OWN = { output_type: "stream", name: "stdout", text: "mine" };

it("shows a run again in place of what an earlier run of its cell has left in the file, once no other page shows it", () => {
  const retried = { ...RECORD, data: { "text/html": '<div data-agent-record="run_1">Stopped.</div>' } };
  const [one, own, same] = [[RECORD, PRINTED], [OWN], [retried]].map((outputs) => panel({ outputs })) as Panels;
  const { list } = page(one, own, same);
  list({ ...RUN, shown: true });
  expect(outputs(one)).toEqual([RECORD, PRINTED]);
  list(RUN);
  expect([one, own, same].map(outputs)).toEqual([[OUTPUT], [OWN], [retried]]);
});

it("shows an open run again where its outputs were cleared, below the cell's own, also while it is shown elsewhere", () => {
  const [cleared, held, code, retyped] = [panel(), panel(), panel(), panel()] as Panels;
  const { list, runs } = page(cleared, held, code, retyped);
  for (const one of [cleared, held, code, retyped]) {
    runs(one);
    cellOf(one).model.outputs.add(LIVE);
    if (one !== held) cellOf(one).turns("idle");
    cellOf(one).model.outputs.clear();
  }
  cellOf(code).model.outputs.add(OWN);
  retyped.replaces();
  list({ ...RUN, shown: true });
  list({ ...RUN, shown: true });
  expect([cleared, held, code, retyped].map(outputs)).toEqual([[OUTPUT], [OUTPUT], [OWN, OUTPUT], [OUTPUT]]);
});

it("puts the record where a run was cleared before its end, and leaves a cell empty that was cleared after it", () => {
  const [one, other] = [panel({ outputs: [LIVE] }), panel()];
  const record = { ...RECORD, data: { "text/html": '<div data-agent-record="run_1">It is 42.</div>' } };
  const ask = { type: "put" as const, run_id: "run_1", outputs: [record, PRINTED], elsewhere: record };
  const puts = (of: typeof one): unknown => putRun(of as unknown as Parameters<typeof putRun>[0], ask).success;
  cellOf(one).model.outputs.clear();
  expect([puts(one), puts(other)]).toEqual([true, false]);
  expect([one, other].map(outputs)).toEqual([[record, PRINTED], []]);
  cellOf(one).model.outputs.clear();
  expect(puts(one)).toBe(false);
  expect(outputs(one)).toEqual([]);
});
