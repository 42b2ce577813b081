/** A page whose highlighter and editor have not come yet, or do not come. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";

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

test("text without a language loads nothing, and very long code stays plain", () => {
  expect(linesOf("a\nb", "")).toHaveLength(2);
  expect(linesOf("x = 1\n".repeat(20_000), "python")[0]).toEqual([{ text: "x = 1", classes: "" }]);
});
