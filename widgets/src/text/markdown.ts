/** An answer as it streams. Finished blocks stay in the page; only the last, unfinished one is made again. */
import { Marked, type Token, type TokenizerAndRendererExtension, type TokensList } from "marked";
import { formulaAt, formulasIn, isRefused, sourceOf, type Formula } from "./formulas";
import { safeHtml } from "./sanitize";

/** A link whose address stands elsewhere in the text: known only once the whole text is. */
const REFERENCE = /^ {0,3}\[[^\]\n]+\]:/m;
/** Beyond this the formulas of a text are shown as their source. */
const MOST_FORMULAS = 500;
/** Around the number of a formula, until it is put there. Of no meaning in any text. */
const PLACE = ["\ue0f0", "\ue0f1"] as const;
const PLACES = /\ue0f0(\d{1,6})\ue0f1/g;
/** A tag, which may have a formula's place in an attribute, or text. */
const PART = /<(?:[^>"]|"[^"]*")*>|[^<]+/g;

/** The formulas of the HTML that is being made. */
let formulas: Formula[] = [];
/** More of the text is to come. */
let streaming = false;

/** One that begins a line and ends one, so that a line of it is not taken for a list or a heading. */
const blockFormula: TokenizerAndRendererExtension = {
  name: "blockFormula",
  level: "block",
  start(src) {
    const at = src.search(/\n {0,3}(?:\$\$|\\\[)/);
    return at < 0 ? undefined : at + 1;
  },
  tokenizer(src) {
    const indent = /^ {0,3}(?=\$\$|\\\[)/.exec(src);
    if (indent === null) return undefined;
    const formula = formulaAt(src, indent[0].length);
    // Its end may be still to come: till then what it has of lists and headings is none.
    if (formula === null && streaming && !/\n[ \t]*\n/.test(src)) return { type: "blockFormula", raw: src, formula };
    const rest = formula === null ? null : /^[ \t]*(?:\n|$)/.exec(src.slice(formula.end));
    return formula === null || rest === null
      ? undefined
      : { type: "blockFormula", raw: src.slice(0, formula.end + rest[0].length), formula };
  },
  renderer: ({ formula, raw }) => `<p>${formula === null ? escaped(raw) : placeFor(formula as Formula)}</p>\n`,
};

const inlineFormula: TokenizerAndRendererExtension = {
  name: "inlineFormula",
  level: "inline",
  start(src) {
    const at = src.search(/[\p{L}\p{N}]?\$|\\[([]/u);
    return at < 0 ? undefined : at;
  },
  tokenizer(src) {
    const formula = formulaAt(src, 0);
    if (formula !== null) return { type: "inlineFormula", raw: src.slice(0, formula.end), formula };
    const money = /^[\p{L}\p{N}]?\$+/u.exec(src);
    return money === null ? undefined : { type: "text", raw: money[0], text: money[0] };
  },
  renderer: ({ formula }) => placeFor(formula as Formula),
};

const marked = new Marked({ gfm: true, extensions: [blockFormula, inlineFormula] });
marked.use({ hooks: { emStrongMask: withoutFormulas } });

export function renderMarkdown(text: string): string {
  return blockHtml(marked.lexer(text));
}

export class StreamingMarkdown {
  private text = "";
  /** The text up to here is in finished blocks. */
  private finishedTo = 0;
  private unfinished: ChildNode[] = [];

  /** `onFinished` is called with each block that will not change any more. */
  constructor(
    private readonly root: HTMLElement,
    private readonly onFinished: (block: Element) => void = () => undefined,
  ) {}

  /** Show `text`, which most often begins with what is shown; `isWhole`: what could not be known before is now. */
  show(text: string, isWhole = false): void {
    if (text === this.text && !isWhole) return;
    if (!text.startsWith(this.text) || (isWhole && REFERENCE.test(text))) this.clear();
    this.text = text;
    for (const node of this.unfinished) node.remove();
    streaming = !isWhole;
    const tokens = marked.lexer(text.slice(this.finishedTo));
    streaming = false;
    const last = isWhole
      ? tokens.length
      : Math.max(
          0,
          tokens.findLastIndex((token) => token.type !== "space"),
        );
    const finished = tokens.slice(0, last);
    for (const node of this.append(finished)) if (node instanceof Element) this.onFinished(node);
    this.finishedTo += finished.reduce((length, token) => length + token.raw.length, 0);
    this.unfinished = this.append(tokens.slice(last));
  }

  private clear(): void {
    this.root.replaceChildren();
    this.text = "";
    this.finishedTo = 0;
    this.unfinished = [];
  }

  private append(tokens: Token[]): ChildNode[] {
    const template = document.createElement("template");
    template.innerHTML = blockHtml(Object.assign(tokens, { links: {} }));
    const nodes = [...template.content.childNodes];
    this.root.append(template.content);
    return nodes;
  }
}

function blockHtml(tokens: TokensList): string {
  formulas = [];
  return safeHtml(marked.parser(tokens)).replaceAll(PART, (part) =>
    part.startsWith("<") ? part.replaceAll(PLACES, "") : part.replaceAll(PLACES, putFormula),
  );
}

function putFormula(place: string, number: string): string {
  const formula = formulas[Number(number)];
  return formula === undefined ? place : formulaHtml(formula, Number(number));
}

function placeFor(formula: Formula): string {
  formulas.push(formula);
  return `${PLACE[0]}${formulas.length - 1}${PLACE[1]}`;
}

function formulaHtml(formula: Formula, number: number): string {
  const source = escaped(sourceOf(formula));
  if (isRefused(formula) || number >= MOST_FORMULAS) return `<code>${source}</code>`;
  return `<span class="ak-formula"${formula.display ? " data-display" : ""}>${source}</span>`;
}

/** Emphasis does not begin or end in a formula. */
function withoutFormulas(text: string): string {
  let masked = "";
  let shown = 0;
  for (const [start, { end }] of formulasIn(text)) {
    masked += text.slice(shown, start) + "a".repeat(end - start);
    shown = end;
  }
  return masked + text.slice(shown);
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
