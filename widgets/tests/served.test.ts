import { beforeEach, expect, it, vi } from "vitest";

const idle: (() => void)[] = [];
const frontEnd = { connectAhead: vi.fn(), rehearse: vi.fn(), default: { render: vi.fn() } };

beforeEach(() => {
  idle.length = 0;
  vi.clearAllMocks();
  vi.stubGlobal("FIRST_PART", "first.js");
  vi.stubGlobal("requestIdleCallback", (work: () => void) => idle.push(work));
});

async function loaded() {
  const served = await import("../src/served");
  await served.keep(Promise.resolve(frontEnd));
  return served;
}

it("rehearses once a page that has the cards ahead is idle", async () => {
  (await loaded()).loadAhead();
  await vi.waitFor(() => expect(idle).toHaveLength(1));
  expect(frontEnd.rehearse).not.toHaveBeenCalled();
  idle[0]!();
  expect(frontEnd.rehearse).toHaveBeenCalledTimes(1);
});

it("connects a run that has begun, and rehearses nothing meanwhile", async () => {
  (await loaded()).loadAhead(["conv_1"]);
  await vi.waitFor(() => expect(frontEnd.connectAhead).toHaveBeenCalledWith("conv_1"));
  expect(idle).toEqual([]);
});
