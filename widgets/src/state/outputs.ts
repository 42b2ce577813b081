/** A call's live outputs, folded as they come: streams as a terminal shows them, displays replaced by their id. */
import type { OutputView } from "../protocol";

/** Of one stream, its end. */
const CHARACTERS_SHOWN = 80_000;
const BLOCKS_SHOWN = 100;

export interface StreamBlock {
  readonly kind: "stream";
  readonly key: number;
  readonly name: "stdout" | "stderr";
  readonly text: string;
  /** Whole lines that came before and are not shown, and all the characters. */
  readonly droppedLines: number;
  readonly droppedCharacters: number;
}

export interface DisplayBlock {
  readonly kind: "display";
  readonly key: number;
  readonly data: Readonly<Record<string, unknown>>;
  /** Of the bundle, as nbformat has it. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly displayId: string | null;
}

export interface ErrorBlock {
  readonly kind: "error";
  readonly key: number;
  readonly text: string;
}

export type Block = StreamBlock | DisplayBlock | ErrorBlock;

export interface Outputs {
  readonly blocks: readonly Block[];
  /** Outputs that came before those in `blocks` and are not shown. */
  readonly droppedBlocks: number;
  /** The index of the next output; one with a lower index was seen before. */
  readonly next: number;
}

export const NO_OUTPUTS: Outputs = { blocks: [], droppedBlocks: 0, next: 0 };

export function addOutput(outputs: Outputs, index: number, output: OutputView): Outputs {
  if (index < outputs.next) return outputs;
  return { ...fold(outputs, index, output), next: index + 1 };
}

export function streamText(block: StreamBlock): string {
  return block.text.replace(/\r$/, "");
}

/** True where an output is worth keeping in view: a plot, a table, a formula, a widget. */
export function hasRichOutput(outputs: Outputs): boolean {
  return outputs.blocks.some(
    (block) => block.kind === "display" && Object.keys(block.data).some((mime) => mime !== "text/plain"),
  );
}

/** How many pictures a model that takes pictures may be given: no drawings made of text. */
export function pictureCount(outputs: Outputs): number {
  return outputs.blocks.filter(
    (block) => block.kind === "display" && ("image/png" in block.data || "image/jpeg" in block.data),
  ).length;
}

function fold(outputs: Outputs, key: number, output: OutputView): Outputs {
  switch (output.kind) {
    case "clear":
      return { ...outputs, blocks: [], droppedBlocks: 0 };
    case "stream":
      return foldStream(outputs, key, output.name ?? "stdout", output.text);
    case "error":
      return append(outputs, { kind: "error", key, text: output.text });
    case "display":
      return foldDisplay(outputs, {
        kind: "display",
        key,
        data: output.data,
        metadata: output.metadata,
        displayId: output.display_id,
      });
  }
}

function foldStream(outputs: Outputs, key: number, name: "stdout" | "stderr", text: string): Outputs {
  const last = outputs.blocks.at(-1);
  if (last?.kind === "stream" && last.name === name) {
    return { ...outputs, blocks: [...outputs.blocks.slice(0, -1), writeText(last, text)] };
  }
  const empty: StreamBlock = {
    kind: "stream",
    key,
    name,
    text: "",
    droppedLines: 0,
    droppedCharacters: 0,
  };
  return append(outputs, writeText(empty, text));
}

function foldDisplay(outputs: Outputs, block: DisplayBlock): Outputs {
  const isIt = (one: Block): boolean => one.kind === "display" && one.displayId === block.displayId;
  const at = block.displayId === null ? -1 : outputs.blocks.findIndex(isIt);
  if (at < 0) return append(outputs, block);
  return { ...outputs, blocks: outputs.blocks.map((old, i) => (i === at ? { ...block, key: old.key } : old)) };
}

function append(outputs: Outputs, block: Block): Outputs {
  const blocks = [...outputs.blocks, block];
  const excess = Math.max(0, blocks.length - BLOCKS_SHOWN);
  return { ...outputs, blocks: blocks.slice(excess), droppedBlocks: outputs.droppedBlocks + excess };
}

/** The stream with more text: what is in its last line may be written over. */
function writeText(block: StreamBlock, chunk: string): StreamBlock {
  const lastLine = block.text.lastIndexOf("\n") + 1;
  const lines = (block.text.slice(lastLine) + chunk).replaceAll("\r\n", "\n").split("\n");
  return withoutExcess({ ...block, text: block.text.slice(0, lastLine) + lines.map(written).join("\n") });
}

/** A line as a terminal shows it. A backspace takes back a character, a carriage return goes back to the start; one at the
 * end is kept for what comes. */
function written(raw: string): string {
  let line = raw;
  while (line.includes("\b")) line = line.replaceAll(/[^\u0008]\u0008|^\u0008+/g, "");
  let shown = "";
  for (const piece of line.split("\r")) {
    // Colour codes take no room on screen, so columns can't be counted across them: the new text is then all of the line.
    const isPlain = !shown.includes("\u001b") && !piece.includes("\u001b");
    if (piece !== "") shown = piece + (isPlain ? shown.slice(piece.length) : "");
  }
  return line.endsWith("\r") ? `${shown}\r` : shown;
}

/** The end, from a line's beginning; from within a line where that is too long by itself. */
function withoutExcess(block: StreamBlock): StreamBlock {
  const { text } = block;
  const excess = text.length - CHARACTERS_SHOWN;
  if (excess <= 0) return block;
  const lineEnd = text.indexOf("\n", excess - 1) + 1;
  const isLong = lineEnd === 0 || text.length - lineEnd < CHARACTERS_SHOWN / 2;
  const dropped = text.slice(0, isLong ? excess : lineEnd);
  return {
    ...block,
    text: text.slice(dropped.length),
    droppedLines: block.droppedLines + dropped.split("\n").length - 1,
    droppedCharacters: block.droppedCharacters + [...dropped].length,
  };
}
