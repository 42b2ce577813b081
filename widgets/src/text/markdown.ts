/** An answer as it streams. Finished blocks stay in the page; only the last, unfinished one is made anew. */
import { Lexer, Parser, type Token, type TokensList } from "marked";
import { safeHtml } from "./sanitize";

/** A link whose address stands elsewhere in the text: known only once the whole text is. */
const REFERENCE = /^ {0,3}\[[^\]\n]+\]:/m;

export function renderMarkdown(text: string): string {
  return blockHtml(Lexer.lex(text, { gfm: true }));
}

export class StreamingMarkdown {
  private text = "";
  /** The text up to here is in finished blocks. */
  private finishedTo = 0;
  private unfinished: ChildNode[] = [];

  constructor(private readonly root: HTMLElement) {}

  /** Show `text`, which most often begins with what is shown. */
  show(text: string): void {
    if (text === this.text) return;
    if (!text.startsWith(this.text)) this.clear();
    this.text = text;
    for (const node of this.unfinished) node.remove();
    const tokens = Lexer.lex(text.slice(this.finishedTo), { gfm: true });
    const last = tokens.findLastIndex((token) => token.type !== "space");
    const finished = tokens.slice(0, Math.max(0, last));
    this.append(finished);
    this.finishedTo += finished.reduce((length, token) => length + token.raw.length, 0);
    this.unfinished = this.append(tokens.slice(Math.max(0, last)));
  }

  /** The text is complete: what could not be known before is now. */
  finish(): void {
    if (!REFERENCE.test(this.text)) return;
    const text = this.text;
    this.clear();
    this.text = text;
    this.root.append(fragment(renderMarkdown(text)));
  }

  private clear(): void {
    this.root.replaceChildren();
    this.text = "";
    this.finishedTo = 0;
    this.unfinished = [];
  }

  private append(tokens: Token[]): ChildNode[] {
    if (tokens.length === 0) return [];
    const made = fragment(blockHtml(Object.assign(tokens, { links: {} })));
    const nodes = [...made.childNodes];
    this.root.append(made);
    return nodes;
  }
}

function blockHtml(tokens: TokensList): string {
  return safeHtml(Parser.parse(tokens));
}

function fragment(html: string): DocumentFragment {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}
