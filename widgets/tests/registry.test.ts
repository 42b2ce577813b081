import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { leaseChannel } from "../src/channel/registry";
import type { Transport } from "../src/channel/transport";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("gives the views of a conversation one channel, which outlives a view that moves and closes with the last", () => {
  const said: string[] = [];
  const open = (): Transport => ({
    receives: "always",
    greets: true,
    start: () => said.push("start"),
    send: () => true,
    retryNow: () => undefined,
    close: () => said.push("close"),
  });
  const [first, second] = [leaseChannel("a", open), leaseChannel("a", open)];
  first.release();
  vi.advanceTimersByTime(60_000);
  second.release();
  vi.advanceTimersByTime(1_000);
  const moved = leaseChannel("a", open);
  vi.advanceTimersByTime(60_000);
  expect([moved.channel === first.channel, said]).toEqual([true, ["start"]]);
  moved.release();
  vi.advanceTimersByTime(60_000);
  expect(said).toEqual(["start", "close"]);
});
