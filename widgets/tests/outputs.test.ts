import { expect, test } from "vitest";
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

test.each([
  ["is redrawn in place", ["start\n", "\r10%", "\r20%", "\r100%\n", "done"], "start\n100%\ndone"],
  ["is redrawn when the chunk ends between the return and the text", ["10%\r", "20%\r", "30%"], "30%"],
  ["keeps what a shorter text does not cover, as a terminal does", ["loading...\rdone"], "doneing..."],
  ["takes a return and a line feed as the end of a line", ["one\r\ntwo\r\n"], "one\ntwo\n"],
  ["steps back over a character", ["ab\bc"], "ac"],
  ["is replaced whole where it has colours", ["\u001b[31mred text\u001b[0m", "\rok"], "ok"],
])("a progress line %s", (_, chunks, text) => expect(terminal(...chunks)).toBe(text));

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

test.each([
  ["image/png", true],
  ["text/html", true],
  ["text/plain", false],
])("an output of %s is worth keeping in view: %s", (mime, rich) => {
  expect(hasRichOutput(outputs({ kind: "display", data: { [mime]: "AAAA" } }))).toBe(rich);
});
