import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { leaseChannel, openAhead } from "../src/channel/registry";
import type { Transport } from "../src/channel/transport";

const opened: string[] = [];
const closed: string[] = [];

function transport(name: string): () => Transport {
  return () => ({
    receives: "always",
    greets: true,
    start: () => opened.push(name),
    send: () => true,
    retryNow: () => undefined,
    close: () => closed.push(name),
  });
}

beforeEach(() => {
  vi.useFakeTimers();
  opened.length = closed.length = 0;
});
afterEach(() => {
  vi.runAllTimers();
  vi.useRealTimers();
});

it("gives a view the channel that was opened ahead of it, and closes it when the view has gone", () => {
  openAhead("a", transport("ahead"));
  const leases = [leaseChannel("a", transport("view")), leaseChannel("a", transport("another"))];
  vi.advanceTimersByTime(60_000);
  expect([opened, closed]).toEqual([["ahead"], []]);
  leases.forEach(({ release }) => release());
  vi.advanceTimersByTime(60_000);
  expect(closed).toEqual(["ahead"]);
});

it("closes a channel for which no view comes", () => {
  openAhead("b", transport("b"));
  vi.advanceTimersByTime(9_000);
  expect(closed).toEqual([]);
  vi.advanceTimersByTime(2_000);
  expect(closed).toEqual(["b"]);
});

it("opens no channel twice, and few that nothing shows", () => {
  const { release } = leaseChannel("shown", transport("shown"));
  for (const key of ["shown", "1", "1", "2", "3", "4", "5", "6"]) openAhead(key, transport(key));
  expect(opened).toEqual(["shown", "1", "2", "3", "4"]);
  release();
});
