/** Code as lines of tokens: coloured once the highlighter, which is a part of its own, is in the page. */
import { signal } from "@preact/signals";
import type { CodeToken } from "./highlight";

/** A part of the front end that is loaded when it is first needed: cards come first. */
export class Part<T> {
  private readonly loaded = signal<T | null>(null);
  private loading: Promise<void> | null = null;

  constructor(private readonly load: () => Promise<T>) {}

  /** `null` until it has come. Whoever asks makes it come, and a component that asks renders again then. */
  get value(): T | null {
    void this.fetch();
    return this.loaded.value;
  }

  /** Resolves when it has come, or has not: the server may be out of reach, or have another version by now. */
  fetch(): Promise<void> {
    return (this.loading ??= this.load().then(
      (part) => void (this.loaded.value = part),
      (error: unknown) => console.warn("Agent Kernel: a part of the page was not loaded.", error),
    ));
  }
}

export const highlighting = new Part(() => import("./highlight"));

/** Beyond this a parse would be felt; the text is then shown plain. */
const HIGHLIGHT_AT_MOST = 100_000;

/** A component that asks renders again when the highlighter has come. */
export function linesOf(code: string, language: string): CodeToken[][] {
  if (code.length <= HIGHLIGHT_AT_MOST && ["python", "json", "shell"].includes(language)) {
    const highlight = highlighting.value;
    const parser = highlight?.PARSERS[language];
    if (highlight !== null && parser !== undefined) return highlight.highlightLines(code, parser);
  }
  return code.split("\n").map((text) => [{ text, classes: "" }]);
}
