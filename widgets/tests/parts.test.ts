/** A page whose highlighter and editor have not come yet, or do not come. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Part } from "../src/text/code";

let linesOf: typeof import("../src/text/code").linesOf;

beforeEach(async () => {
  vi.resetModules(); // other tests may have had the parts come
  ({ linesOf } = await import("../src/text/code"));
});

afterEach(() => vi.restoreAllMocks());

test("code is plain until the highlighter is there, and coloured from then on", async () => {
  expect(linesOf("x = 1", "python")).toEqual([[{ text: "x = 1", classes: "" }]]);
  await vi.waitFor(() => expect(linesOf("x = 1", "python")[0]!.length).toBeGreaterThan(1));
});

test("a shell line waits for its own part", async () => {
  expect(linesOf("ls -l", "shell")).toEqual([[{ text: "ls -l", classes: "" }]]);
  await vi.waitFor(() => expect(linesOf("ls -l", "shell")[0]!.length).toBeGreaterThan(1));
});

test("text without a language loads nothing, and very long code stays plain", () => {
  expect(linesOf("a\nb", "")).toHaveLength(2);
  expect(linesOf("x = 1\n".repeat(20_000), "python")[0]).toEqual([{ text: "x = 1", classes: "" }]);
});

test("a part is asked for once, and one that does not come is known as such", async () => {
  vi.spyOn(console, "warn").mockImplementation(() => undefined);
  const load = vi.fn(() => Promise.reject(new Error("404")));
  const part = new Part(load);
  expect([part.value, part.value]).toEqual([null, null]);
  await part.fetch();
  expect(load).toHaveBeenCalledTimes(1);
  expect(part.value).toBeNull();
});
