import { describe, expect, test } from "vitest";
import { addOutput, NO_OUTPUTS, streamText, type Outputs, type StreamBlock } from "../src/state/outputs";
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

test.each([
  ["is redrawn in place", ["start\n", "\r10%", "\r20%", "\r100%\n", "done"], "start\n100%\ndone"],
  ["keeps what a shorter text does not cover, as a terminal does", ["loading...\rdone"], "doneing..."],
  ["is replaced whole where it has colours", ["\u001b[31mred text\u001b[0m", "\rok"], "ok"],
])("a progress line %s", (_, chunks, text) => expect(terminal(...chunks)).toBe(text));

describe.each([
  ["lines", `${"x".repeat(99)}\n`.repeat(5_000)],
  ["one line with its end", `${"x".repeat(200_000)}\n`],
])("a long output of %s", (_what, text) => {
  test.each([100, 1_000_000])("in pieces of %d keeps its end and says what is left out", (size) => {
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
      text.slice(i * size, (i + 1) * size),
    );
    const [block] = outputs(...pieces.map((piece) => ({ text: piece }))).blocks;
    const stream = block as StreamBlock;
    const shown = streamText(stream);
    const gone = text.slice(0, text.length - shown.length);
    expect(text.endsWith(shown)).toBe(true);
    expect(shown.length).toBeGreaterThan(39_000);
    expect(shown.length).toBeLessThan(80_001);
    expect([stream.droppedLines, stream.droppedCharacters]).toEqual([gone.split("\n").length - 1, [...gone].length]);
  });
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
