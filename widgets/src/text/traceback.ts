/** Tracebacks as Python writes them, with the frames of libraries set aside. */

const COLOURS = /\u001b\[[0-9;]*m/g;
/** The kernel has taken the way to the library off a library's file. */
const FRAME = /^ {2}File "([^"]+)", line \d+/;
const LIBRARY = /^(?:<frozen |(?![/\\]|[A-Za-z]:).*\.(?:py|pyx|pxi)$)/;

export interface Traceback {
  /** What is the user's own: the head, the frames of cells and own files, and the error. */
  readonly own: string;
  /** How many frames were set aside. */
  readonly frames: number;
}

export function splitTraceback(text: string): Traceback {
  const kept: string[] = [];
  let frames = 0;
  let aside = false;
  for (const line of text.split("\n")) {
    const file = FRAME.exec(line)?.[1];
    // A frame's source and the marks below it are indented further than the frame.
    if (file !== undefined) aside = LIBRARY.test(file);
    else if (!line.startsWith("    ")) aside = false;
    if (file !== undefined && aside) frames += 1;
    if (!aside) kept.push(line);
  }
  return { own: kept.join("\n"), frames };
}

/** "KeyError: 'revenu'": the line that says what went wrong. */
export function errorLine(text: string): string {
  const lines = text
    .replaceAll(COLOURS, "")
    .split("\n")
    .filter((line) => line.trim() !== "");
  return lines.at(-1)?.trim() ?? "";
}
