/** Code in JupyterLab's colours, for the cards and for the editor: one set of classes for both. */
import type { Parser } from "@lezer/common";
import { highlightCode, tagHighlighter, tags } from "@lezer/highlight";
import { parser as jsonParser } from "@lezer/json";
import { parser as pythonParser } from "@lezer/python";

export const highlighter = tagHighlighter([
  {
    tag: [
      tags.keyword,
      tags.operatorKeyword,
      tags.controlKeyword,
      tags.definitionKeyword,
      tags.moduleKeyword,
      tags.bool,
      tags.null,
    ],
    class: "ak-t-k",
  },
  { tag: [tags.standard(tags.name), tags.self], class: "ak-t-b" },
  { tag: [tags.string, tags.special(tags.string), tags.character], class: "ak-t-s" },
  { tag: [tags.comment, tags.lineComment, tags.blockComment], class: "ak-t-c" },
  {
    tag: [tags.operator, tags.arithmeticOperator, tags.compareOperator, tags.updateOperator, tags.definitionOperator],
    class: "ak-t-o",
  },
  { tag: [tags.propertyName, tags.function(tags.propertyName), tags.attributeName], class: "ak-t-p" },
  { tag: [tags.number, tags.integer, tags.float], class: "ak-t-n" },
]);

export const PARSERS: Readonly<Record<string, Parser>> = { python: pythonParser, json: jsonParser };

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
