/** A call's arguments: what the card shows of them, and what Edit puts in their place. */
import { diffArrays } from "diff";
import type { Preview } from "../protocol";

export interface Shown {
  readonly kind: "code" | "diff";
  readonly language: string;
  readonly text: string;
  /** Arguments that are not part of `text`. All of a call is on screen. */
  readonly rest: readonly (readonly [string, string])[];
}

/** The argument that holds a tool's code. */
const CODE_ARGUMENT: Readonly<Record<string, { readonly name: string; readonly language: string }>> = {
  run_python: { name: "code", language: "python" },
  run_shell: { name: "command", language: "shell" },
};

/** Tools that act on a cell: what it has is on the card, from its preview. */
export const ON_CELLS = ["insert_cell", "edit_cell", "delete_cell", "move_cell", "run_cell"];

/** Arguments of the file tools that a diff shows in full. */
const IN_A_DIFF = ["content", "source", "old", "new", "old_text", "new_text", "old_string", "new_string"];

const SUMMARY_ARGUMENTS = [
  "path",
  "file_path",
  "cell_id",
  "pattern",
  "query",
  "name",
  "names",
  "directory",
  "question",
];

export function parseArguments(input: string | null): Record<string, unknown> | null {
  if (input === null) return null;
  try {
    const value: unknown = JSON.parse(input);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

export function shownCall(name: string, input: string, preview: Preview | null): Shown {
  const values = parseArguments(input);
  const code = CODE_ARGUMENT[name];
  const codeValue = code && values?.[code.name];
  if (code && values && typeof codeValue === "string") {
    return { kind: "code", language: code.language, text: codeValue, rest: others(values, [code.name]) };
  }
  if (preview?.kind === "diff" && values) {
    return { kind: "diff", language: preview.language, text: preview.text, rest: others(values, IN_A_DIFF) };
  }
  if (preview?.kind === "code" && values) {
    const shown = Object.keys(values).filter((key) => values[key] === preview.text);
    if (shown.length > 0 || ON_CELLS.includes(name))
      return { kind: "code", language: preview.language, text: preview.text, rest: others(values, shown) };
  }
  return { kind: "code", language: "json", text: prettyJson(input), rest: [] };
}

/** The text that the editor opens on, and how it becomes the whole arguments object again. */
export interface Editable {
  readonly text: string;
  readonly language: string;
  /** The arguments with `text` in place. Text that is not an object is sent as it is, for the server to refuse. */
  rebuild(text: string): Record<string, unknown> | string;
}

export function editable(name: string, input: string): Editable {
  const values = parseArguments(input);
  const code = CODE_ARGUMENT[name];
  const current = code && values?.[code.name];
  if (code && values && typeof current === "string") {
    return { text: current, language: code.language, rebuild: (text) => ({ ...values, [code.name]: text }) };
  }
  const source = ON_CELLS.includes(name) ? values?.["source"] : undefined;
  if (values && typeof source === "string") {
    const language = values["cell_type"] === "markdown" ? "markdown" : "python";
    return { text: source, language, rebuild: (text) => ({ ...values, source: text }) };
  }
  // JSON text goes as text: a number too large for JavaScript would not survive being read here.
  return { text: prettyJson(input), language: "json", rebuild: (text) => text };
}

/** The numbers, from 1, of the lines of `after` that are not in `before`. */
export function changedLines(before: string, after: string): number[] {
  const changed: number[] = [];
  let line = 1;
  for (const part of diffArrays(before.split("\n"), after.split("\n"))) {
    if (part.removed) continue;
    if (part.added) changed.push(...part.value.map((_, offset) => line + offset));
    line += part.value.length;
  }
  return changed;
}

/** Comments and imports. */
const PREAMBLE = /^(#|import |from \S+ import\b)/;

/** One line for a card's head, cut from the arguments. `cell` is the number of the cell that the title names. */
export function summary(name: string, input: string | null, cell: number | null = null): string {
  const values = parseArguments(input);
  if (values === null) return "";
  const code = CODE_ARGUMENT[name];
  const text = code ? values[code.name] : ON_CELLS.includes(name) ? values["source"] : undefined;
  if (typeof text === "string") return values["cell_type"] === "markdown" ? firstLine(text) : firstStatement(text);
  if (cell !== null && ON_CELLS.includes(name)) return "";
  if (name === "search_files" && typeof values["query"] === "string") {
    const where = values["pattern"] ?? values["path"];
    return typeof where === "string" ? `"${values["query"]}" in ${where}` : `"${values["query"]}"`;
  }
  for (const key of SUMMARY_ARGUMENTS) {
    const value = values[key];
    if (typeof value === "string" && value !== "") return firstLine(value);
    if (Array.isArray(value)) return value.map(String).join(", ");
  }
  const rest = Object.values(values).map((value) =>
    typeof value === "string" ? firstLine(value) : JSON.stringify(value),
  );
  return rest.join(", ").slice(0, 200);
}

export function lineCount(text: string): number {
  return text.replace(/\n$/, "").split("\n").length;
}

/** Of code, the first line that does something: cards that all say `import pandas as pd` can't be told apart. */
function firstStatement(code: string): string {
  const lines = code
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  let at = 0;
  for (let line = lines[0]; line !== undefined && PREAMBLE.test(line); line = lines[++at]) {
    if (line.startsWith("from ") && line.includes("(")) while (at < lines.length && !lines[at]!.includes(")")) at++;
  }
  return lines[at] ?? lines[0] ?? "";
}

function firstLine(text: string): string {
  return (
    text
      .split("\n")
      .find((line) => line.trim() !== "")
      ?.trim() ?? ""
  );
}

function others(values: Record<string, unknown>, except: readonly string[]): (readonly [string, string])[] {
  return Object.entries(values)
    .filter(([key, value]) => !except.includes(key) && value !== null)
    .map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)] as const);
}

/** Indented for reading. Numbers keep their digits: the text is laid out again, not parsed and printed. */
export function prettyJson(text: string): string {
  let depth = 0;
  let out = "";
  for (const token of text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? []) {
    if (token === "{" || token === "[") out += token + newline(++depth);
    else if (token === "}" || token === "]") out = closing(out, --depth) + token;
    else if (token === ",") out += token + newline(depth);
    else if (token === ":") out += ": ";
    else out += token;
  }
  return out;
}

function newline(depth: number): string {
  return `\n${"  ".repeat(Math.max(0, depth))}`;
}

function closing(out: string, depth: number): string {
  const trimmed = out.trimEnd();
  return /[{[]$/.test(trimmed) && !trimmed.endsWith('"') ? trimmed : trimmed + newline(depth);
}
