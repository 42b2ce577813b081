/** Code as lines of tokens: coloured once the highlighter, which is a part of its own, is in the page. */
import type { CodeToken } from "./highlight";
import { Part } from "./part";

export const highlighting = new Part(() => import("./highlight"));
export const shellHighlighting = new Part(() => import("./shell"));

/** Beyond this a parse would be felt; the text is then shown plain. */
const HIGHLIGHT_AT_MOST = 100_000;

/** A component that asks renders again when the highlighter has come. */
export function linesOf(code: string, language: string): CodeToken[][] {
  if (code.length <= HIGHLIGHT_AT_MOST && ["python", "json", "shell"].includes(language)) {
    const highlight = highlighting.value;
    const parser = language === "shell" ? shellHighlighting.value?.shellLanguage.parser : highlight?.PARSERS[language];
    if (highlight !== null && parser !== undefined) return highlight.highlightLines(code, parser);
  }
  return code.split("\n").map((text) => [{ text, classes: "" }]);
}
