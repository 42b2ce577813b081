/** Code in JupyterLab's colours, for the cards and for the editor: one set of classes for both. */
import { StreamLanguage } from "@codemirror/language";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import type { Parser } from "@lezer/common";
import { highlightCode, tagHighlighter, tags } from "@lezer/highlight";
import { parser as jsonParser } from "@lezer/json";
import { parser as pythonParser } from "@lezer/python";

/** A tag stands for those below it, too. */
export const highlighter = tagHighlighter([
  { tag: [tags.keyword, tags.bool], class: "ak-t-k" },
  { tag: [tags.standard(tags.name), tags.self], class: "ak-t-b" },
  { tag: tags.string, class: "ak-t-s" },
  { tag: tags.comment, class: "ak-t-c" },
  { tag: tags.operator, class: "ak-t-o" },
  { tag: tags.propertyName, class: "ak-t-p" },
  { tag: tags.number, class: "ak-t-n" },
]);

export const shellLanguage = StreamLanguage.define(shell);

export const PARSERS: Readonly<Record<string, Parser>> = {
  python: pythonParser,
  json: jsonParser,
  shell: shellLanguage.parser,
};

export interface CodeToken {
  readonly text: string;
  readonly classes: string;
}

export function highlightLines(code: string, parser: Parser): CodeToken[][] {
  const lines: CodeToken[][] = [[]];
  highlightCode(
    code,
    parser.parse(code),
    highlighter,
    (text, classes) => lines.at(-1)?.push({ text, classes }),
    () => lines.push([]),
  );
  return lines;
}
