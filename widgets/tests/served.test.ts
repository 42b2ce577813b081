import { expect, it, vi } from "vitest";

it("connects a run that has begun, ahead of its cards", async () => {
  vi.stubGlobal("FIRST_PART", "first.js");
  const frontEnd = { connectAhead: vi.fn(), default: { render: vi.fn() } };
  const served = await import("../src/served");
  await served.keep(Promise.resolve(frontEnd));
  served.loadAhead(["conv_1"]);
  await vi.waitFor(() => expect(frontEnd.connectAhead).toHaveBeenCalledWith("conv_1"));
});
