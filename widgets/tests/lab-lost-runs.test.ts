import { expect, it } from "vitest";
import type { ListedRun } from "../lab/src/listedRuns";
import { indexOf, showAgain, showsLostRuns } from "../lab/src/lostRuns";

type Parts = Parameters<typeof showsLostRuns>;

const RUN = { run_id: "run_1", notebook: "a.ipynb", kernel_id: "k1", cell_id: "c", shown: false } as ListedRun;
const OUTPUT = {
  output_type: "display_data",
  data: {
    "application/vnd.agent-kernel.run+json": { run_id: "run_1" },
    "text/plain": expect.stringContaining("going on"),
  },
  metadata: { agent_kernel_open_run: "run_1" },
};

function signal<T>() {
  const slots: ((sender: null, value: T) => void)[] = [];
  return {
    connect: (slot: (typeof slots)[0]) => void slots.push(slot),
    emit: (one: T) => slots.forEach((f) => f(null, one)),
  };
}

/** As a file has it that was not saved since the run began. */
function cell(outputs: unknown[] = []) {
  const list = Object.assign(outputs, {
    add: (output: unknown) => outputs.push(output),
    toJSON: () => [...outputs],
    fromJSON: (all: unknown[]) => outputs.splice(0, outputs.length, ...all),
  });
  return { model: { id: "c", type: "code", outputs: list, executionState: "idle" } };
}

function panel(localPath = "a.ipynb", kernel = "k1") {
  return {
    content: { widgets: [cell()], model: { readOnly: false } },
    context: { isReady: true, localPath },
    sessionContext: { session: { kernel: { id: kernel } } },
  };
}

/** A page with these notebooks, and what the server lists in it. */
function page(...panels: ReturnType<typeof panel>[]) {
  const [listed, executions] = [signal<readonly ListedRun[]>(), signal<{ cell: ReturnType<typeof cell> }>()];
  const tracker = { forEach: (each: (one: unknown) => void) => panels.forEach(each) };
  showsLostRuns(...([tracker, { listed }, executions] as unknown as Parts));
  return { list: (...runs: ListedRun[]) => listed.emit(runs), executes: executions.emit };
}

const outputs = (one: ReturnType<typeof panel>): unknown[] => [...one.content.widgets[0]!.model.outputs];

it("shows a run again after a reload, marked for the server, and once more when the file is loaded again", () => {
  const one = panel();
  const { list } = page(one);
  list();
  list(RUN);
  list(RUN);
  expect(outputs(one)).toEqual([OUTPUT]);
  one.content.widgets = [cell()];
  list(RUN);
  expect(outputs(one)).toEqual([OUTPUT]);
});

const RECORD = { output_type: "display_data", data: { "text/html": '<div data-agent-record="run_0">It is 42.</div>' } };
const PRINTED = { output_type: "display_data", data: {}, metadata: { agent_kernel: { run: "run_0", call: 1 } } };
const OWN = { output_type: "stream", name: "stdout", text: "mine" };

it("shows a run again in place of what an earlier run of its cell has left in the file, once no other page shows it", () => {
  const [one, own, same] = [panel(), panel(), panel()];
  one.content.widgets = [cell([RECORD, PRINTED])];
  own.content.widgets = [cell([OWN])];
  const retried = { ...RECORD, data: { "text/html": '<div data-agent-record="run_1">Stopped.</div>' } };
  same.content.widgets = [cell([retried])];
  const { list } = page(one, own, same);
  list({ ...RUN, shown: true });
  expect(outputs(one)).toEqual([RECORD, PRINTED]);
  list(RUN);
  expect([one, own, same].map(outputs)).toEqual([[OUTPUT], [OWN], [retried]]);
});

it("shows a run where a person asks for it, below outputs of the person's own, and once", () => {
  const one = panel();
  one.content.widgets = [cell([OWN, RECORD])];
  const shows = (): boolean => showAgain(one as unknown as Parameters<typeof showAgain>[0], 0, "run_1");
  expect([shows(), shows()]).toEqual([true, false]);
  expect(outputs(one)).toEqual([OWN, OUTPUT]);
});

it("leaves a cell empty that was cleared", () => {
  const [drawn, ran, saved] = [panel(), panel(), panel()];
  saved.content.widgets = [cell(["a record"])];
  const { list, executes } = page(drawn, ran, saved);
  executes({ cell: ran.content.widgets[0]! });
  list(RUN);
  for (const one of [drawn, ran, saved]) one.content.widgets[0]!.model.outputs.length = 0;
  list(RUN);
  expect([drawn, ran, saved].flatMap(outputs)).toEqual([]);
});

it("changes no notebook that is read-only, nor one whose run another page shows, until that is gone", () => {
  const [one, fixed] = [panel(), panel()];
  fixed.content.model.readOnly = true;
  const { list } = page(one, fixed);
  list({ ...RUN, shown: true });
  expect(outputs(one)).toEqual([]);
  list(RUN);
  expect([outputs(one), outputs(fixed)]).toEqual([[OUTPUT], []]);
});

it("knows the notebook of a run from its copies, and that of a run without one by the kernel", () => {
  const index = (one: unknown, fields: Partial<ListedRun> = {}): number =>
    indexOf(one as Parameters<typeof indexOf>[0], { ...RUN, ...fields });
  expect([index(panel()), index(panel("a-Copy1.ipynb")), index(panel(), { cell_id: "d" })]).toEqual([0, -1, -1]);
  const nowhere = { notebook: null };
  expect([index(panel("b.ipynb"), nowhere), index(panel("b.ipynb", "k2"), nowhere)]).toEqual([0, -1]);
});
