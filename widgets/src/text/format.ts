/** Durations, times and numbers as the cards say them. */
import type { RunView } from "../protocol";

/** Between a number and its unit no line breaks: U+00A0. */
const unit = (value: number | string, name: string): string => `${value}\u00a0${name}`;

/** What has ended took so long. agent_kernel/record/words.py says it the same way. */
export function duration(ms: number): string {
  if (ms < 50) return `<\u00a0${unit(0.1, "s")}`;
  if (ms < 9_950) return unit((Math.round(ms / 100) / 10).toFixed(1), "s");
  return wholeSeconds(1000 * Math.round(ms / 1000));
}

/** A prompt on one line, as part of a sentence; cut where it is long. */
export function oneLine(text: string, characters: number): string {
  const line = text.trim().replaceAll(/\s+/g, " ");
  return line.length <= characters
    ? line.replace(/[.,:;]+$/, "")
    : `${[...line].slice(0, characters).join("").trimEnd()}…`;
}

export function sentence(text: string): string {
  return text === "" || /[.!?:]\)?$/.test(text) ? text : `${text}.`;
}

/** The beginning of a long text, and how much more there is. */
export function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most)}\n… [${leftOutOf(text.slice(most))} here]`;
}

/** How much of a text is not shown: its whole lines, and all characters, also those of a line that is shown in part. agent_kernel/protocol/figures.py says it the same way. */
export function leftOut(lines: number, characters: number): string {
  return `${lines > 0 ? `${plural(lines, "line")}, ` : ""}${plural(characters, "character")} left out`;
}

/** The same of the end of a text, which begins within a line. */
function leftOutOf(end: string): string {
  return leftOut(end.replace(/\n$/, "").split("\n").length - 1, [...end].length);
}

/** A clock that ticks: no tenths. */
export function wholeSeconds(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return unit(seconds, "s");
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${unit(minutes, "min")} ${unit(seconds % 60, "s")}`;
  return `${unit(Math.floor(minutes / 60), "h")} ${unit(minutes % 60, "min")}`;
}

/** The time of day, as the reader's own clock gives it: 14:06:31. */
export function timeOfDay(timestamp: string): string {
  return new Date(timestamp).toLocaleTimeString();
}

export function tokens(count: number): string {
  if (count < 1_000) return String(count);
  if (count < 1_000_000) return `${(count / 1_000).toFixed(1)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

/** `$1.20`, `$0.013`, `$0.01`, `< $0.001`; a lower bound, which is rounded down, as `≥ $1.20`, `> $0`. agent_kernel/protocol/figures.py says it the same way. */
export function money(usd: number, atLeast = false): string {
  if (usd === 0 && !atLeast) return "$0";
  if (usd < 0.001) return atLeast ? "> $0" : "< $0.001";
  const places = usd < 0.1 ? 3 : 2;
  const rounded = Number(usd.toFixed(places));
  const amount = atLeast && rounded > usd ? rounded - 10 ** -places : rounded;
  return `${atLeast ? "≥ " : ""}$${amount.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: places })}`;
}

/** What a run has spent: `1.2k in` (`about 1.2k in` where tokens are estimated), `340 out`, `$0.004`, or `$0.004 by the service` where that is the service's own figure; without the cost where no price is known, or where there is none. */
export function spent(run: Pick<RunView, "usage" | "recorded">): string[] {
  const { usage } = run;
  if (run.recorded) return ["Cost nothing"];
  const parts =
    usage.total_tokens === 0
      ? []
      : [`${usage.estimated ? "about " : ""}${tokens(usage.input_tokens)} in`, `${tokens(usage.output_tokens)} out`];
  if (usage.cost !== null) parts.push(money(usage.cost, usage.cost_is_partial) + byTheService(usage));
  return parts;
}

export function byTheService(usage: RunView["usage"]): string {
  return usage.cost_is_reported ? " by the service" : "";
}

/** A limit is a round number: 200k, not 200.0k. */
export function limit(count: number): string {
  return tokens(count).replace(".0", "");
}

/** 200,000 */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

export function plural(count: number, one: string): string {
  return `${count.toLocaleString("en-US")} ${one}${count === 1 ? "" : "s"}`;
}

export function randomId(): string {
  // Not `randomUUID`, which a page that came over plain HTTP does not have.
  return `ak-${[...crypto.getRandomValues(new Uint32Array(2))].map((part) => part.toString(36)).join("-")}`;
}
