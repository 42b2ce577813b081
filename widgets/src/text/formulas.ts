/**
 * What a formula is in Markdown, and what is money or code. agent_kernel/record/formulas.py says the rule in words and
 * has it for records; the examples in tests/formulas.json hold both to it.
 */

export interface Formula {
  readonly tex: string;
  readonly display: boolean;
  /** Where the text goes on after it. */
  readonly end: number;
}

const LONGEST = 5_000;
const DEEPEST = 30;
const SHIFTS = 20;
const MARKS = ["$$", "$", "\\(", "\\["] as const;
const CLOSING = { $$: "$$", $: "$", "\\(": "\\)", "\\[": "\\]" } as const;
const STEP = /\\[^]|[${}]|\n[ \t]*(?=\n)/g;
const BEFORE = /[\p{L}\p{N}$]$/u;
const AFTER = /^[0-9A-Z{$]/;
const COMMAND = /\\[A-Za-z]+/g;
const GROUP = /\{[^{}]*\}/g;
const MONEY = /^[-+]?\d[^]*\s[A-Za-z]{2,}/;
const REFUSED =
  /\\(?:rule|Rule|Space|m?kern|[hm]skip|[hmv]space|smash|(?:math)?(?:[rl]lap|clap)|raise|lower|raisebox|moveleft|moveright|above|abovewithdelims|genfrac|bbox|scalebox|resizebox|mathmakebox|makebox|parbox|fontsize|style|class|cssId|data|href|url|unicode|mmlToken|texttip|mathtip|toggle|action|includegraphics|require|[gex]?def|let|futurelet|(?:re)?newcommand|providecommand|(?:re)?newenvironment|DeclareMathOperator|DeclarePairedDelimiters?[A-Za-z]*|Newextarrow|begingroup|endgroup)(?![A-Za-z])|\[\s*-?[\d.]+\s*[a-z]{2}\s*\]/;
const SHIFT = /\\(?:!|neg(?:thin|med|thick)space)/g;
const TOKEN = /`+|\\(?![([])[^]|[\p{L}\p{N}]?\$+|\\[([]/gu;

/** The formula that begins at `start`, where one does. */
export function formulaAt(text: string, start: number): Formula | null {
  const mark = MARKS.find((one) => text.startsWith(one, start));
  if (mark === undefined || (mark.startsWith("$") && BEFORE.test(text.slice(Math.max(0, start - 2), start))))
    return null;
  const begin = start + mark.length;
  const end = endOf(text, begin, mark);
  if (end === null) return null;
  const tex = text.slice(begin, end);
  const after = end + mark.length;
  if (tex.trim() === "" || (mark === "$" && !isInline(tex, text.slice(after, after + 1)))) return null;
  return { tex: tex.trim(), display: mark === "$$" || mark === "\\[", end: after };
}

/** Formulas that could be painted beyond their place, or would change others, are shown as their source. */
export function isRefused({ tex }: Formula): boolean {
  return REFUSED.test(tex) || (tex.match(SHIFT)?.length ?? 0) > SHIFTS || depthOf(tex) > DEEPEST;
}

/** The source between dollars. */
export function sourceOf({ tex, display }: Formula): string {
  return display ? `$$${tex}$$` : `$${tex}$`;
}

/** The positions of the formulas in a text without code blocks. */
export function* formulasIn(text: string): Generator<readonly [number, Formula]> {
  const token = new RegExp(TOKEN);
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    const [what] = found;
    if (what.startsWith("`")) {
      const closing = new RegExp(`(?<!\`)${what}(?!\`)`, "g");
      closing.lastIndex = token.lastIndex;
      if (closing.test(text)) token.lastIndex = closing.lastIndex;
    } else if (what.startsWith("$") || what === "\\(" || what === "\\[") {
      const formula = formulaAt(text, found.index);
      if (formula === null) continue;
      yield [found.index, formula];
      token.lastIndex = formula.end;
    }
  }
}

function endOf(text: string, begin: number, mark: keyof typeof CLOSING): number | null {
  const closing = CLOSING[mark];
  const step = new RegExp(STEP);
  step.lastIndex = begin;
  let depth = 0;
  for (
    let found = step.exec(text);
    found !== null && found.index + found[0].length <= begin + LONGEST;
    found = step.exec(text)
  ) {
    const [what] = found;
    if (what === "{") depth += 1;
    else if (what === "}") depth -= 1;
    else if (what === "$" || /^\\[()[\]]$/.test(what))
      return depth === 0 && text.startsWith(closing, found.index) ? found.index : null;
    if (depth < 0 || what.startsWith("\n")) return null;
  }
  return null;
}

function isInline(tex: string, following: string): boolean {
  if (/^\s|\s$/.test(tex) || AFTER.test(following)) return false;
  let bare = tex.replaceAll(COMMAND, "");
  for (let less = bare.replaceAll(GROUP, ""); less !== bare; less = bare.replaceAll(GROUP, "")) bare = less;
  return !MONEY.test(bare);
}

function depthOf(tex: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [what] of tex.matchAll(STEP)) {
    depth += what === "{" ? 1 : what === "}" ? -1 : 0;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}
