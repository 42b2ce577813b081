/** Tracebacks, IPython's and Python's own, with the frames of libraries set aside. */

const COLOURS = /\u001b\[[0-9;]*m/g;
/** The line of dashes above a traceback, which the frame of the output makes needless. */
const RULE = /^(?:\u001b\[[0-9;]*m)*-{20,}(?:\u001b\[[0-9;]*m)*\n/;
const FRAME = /^(?:File |Cell |Input )/;
const LIBRARY = /^File .*(?:site-packages|dist-packages|[/\\]lib[/\\]python\d|<frozen |importlib)/;

/** A frame as Python writes it. The kernel has taken the way to the library off a library's file. */
const PYTHON_FRAME = /^ {2}File "([^"]+)", line \d+/;
const PYTHON_LIBRARY = /^(?:<frozen |(?![/\\]|[A-Za-z]:).*\.(?:py|pyx|pxi)$)/;

export interface Traceback {
  /** What is the user's own: the head, the frames of cells and own files, and the error. */
  readonly own: string;
  /** How many frames were set aside. */
  readonly frames: number;
}

export function splitTraceback(raw: string): Traceback {
  const text = raw.replace(RULE, "");
  const parts = text.split(/\n\s*\n/);
  const kept: string[] = [];
  let frames = 0;
  for (const part of parts) {
    const plain = part.replaceAll(COLOURS, "");
    if (FRAME.test(plain) && LIBRARY.test(plain.split("\n", 1)[0] ?? "")) frames += 1;
    else kept.push(part);
  }
  return frames === 0 ? splitPython(text) : { own: kept.join("\n\n"), frames };
}

function splitPython(text: string): Traceback {
  const kept: string[] = [];
  let frames = 0;
  let aside = false;
  for (const line of text.split("\n")) {
    const file = PYTHON_FRAME.exec(line)?.[1];
    // A frame's source and the marks below it are indented further than the frame.
    if (file !== undefined) aside = PYTHON_LIBRARY.test(file);
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
