import { describe, expect, test } from "vitest";
import { addOutput, hasRichOutput, NO_OUTPUTS, streamText, type Outputs, type StreamBlock } from "../src/state/outputs";
import type { OutputView } from "../src/protocol";

const EMPTY: OutputView = { kind: "stream", name: "stdout", text: "", data: {}, metadata: {}, display_id: null };

function outputs(...views: Partial<OutputView>[]): Outputs {
  return views.reduce<Outputs>((all, one, index) => addOutput(all, index, { ...EMPTY, ...one }), NO_OUTPUTS);
}

function terminal(...chunks: string[]): string {
  return outputs(...chunks.map((text) => ({ text })))
    .blocks.map((block) => streamText(block as StreamBlock))
    .join("");
}

describe("a progress line", () => {
  test("is redrawn in place", () => {
    expect(terminal("start\n", "\r10%", "\r20%", "\r100%\n", "done")).toBe("start\n100%\ndone");
  });

  test("is redrawn when the chunk ends between the return and the text", () => {
    expect(terminal("10%\r", "20%\r", "30%")).toBe("30%");
  });

  test("keeps what a shorter text does not cover, as a terminal does", () => {
    expect(terminal("loading...\rdone")).toBe("doneing...");
  });

  test("takes a return and a line feed as the end of a line", () => {
    expect(terminal("one\r\ntwo\r\n")).toBe("one\ntwo\n");
  });

  test("steps back over a character", () => {
    expect(terminal("ab\bc")).toBe("ac");
  });

  test("is replaced whole where it has colours", () => {
    expect(terminal("\u001b[31mred text\u001b[0m", "\rok")).toBe("ok");
  });
});

test("a long output keeps its end and says how many lines are not shown", () => {
  const line = `${"x".repeat(99)}\n`;
  const [block] = outputs(...Array.from({ length: 5_000 }, () => ({ text: line }))).blocks;
  const stream = block as StreamBlock;
  const shown = streamText(stream).split("\n").length - 1;
  expect(shown + stream.droppedLines).toBe(5_000);
  expect(streamText(stream).length).toBeLessThan(150_000);
});

test("many outputs are cut from the front, with their number", () => {
  const all = outputs(
    ...Array.from({ length: 130 }, () => ({ kind: "display" as const, data: { "text/plain": "x" } })),
  );
  expect([all.blocks.length, all.droppedBlocks]).toEqual([100, 30]);
});

test("a display with an id is replaced where it stands", () => {
  const all = outputs(
    { kind: "display", display_id: "a", data: { "text/plain": "1" } },
    { text: "between" },
    { kind: "display", display_id: "a", data: { "text/plain": "2" } },
  );
  expect(all.blocks).toHaveLength(2);
  expect(all.blocks[0]).toMatchObject({ data: { "text/plain": "2" } });
});

test("clear_output clears", () => {
  expect(
    outputs({ text: "old" }, { kind: "clear" }, { text: "new" }).blocks.map((b) => streamText(b as StreamBlock)),
  ).toEqual(["new"]);
});

test("a plot or a table counts as worth keeping in view, a line of text does not", () => {
  expect(hasRichOutput(outputs({ kind: "display", data: { "image/png": "AAAA" } }))).toBe(true);
  expect(hasRichOutput(outputs({ kind: "display", data: { "text/html": "<table></table>" } }))).toBe(true);
  expect(hasRichOutput(outputs({ kind: "display", data: { "text/plain": "42" } }))).toBe(false);
});
