/** Words for a run's model, its policy, its pauses and who decided. */
import type { BudgetRaise, DelayView, PauseView, RunView } from "../protocol";
import { ON_CELLS } from "./arguments";
import { timeOfDay, wholeSeconds } from "./format";
import { visible } from "./invisible";
import { SHARED } from "./words.gen";

export const ANOTHER_TAB = "another tab";

/** The model, how much it was asked to reason, and whether it is sent less. A recording reasons as it did. */
export function modelWords({ model, effort, lean, recorded }: RunView): string {
  if (recorded) return model;
  const asked = effort ? filled(SHARED.modelWithEffort, { model, effort }) : model;
  return lean ? filled(SHARED.leanModel, { model: asked }) : asked;
}

/** What answers in place of a model: "Recorded answers of sum.jsonl". */
export function recordedWords({ model }: Pick<RunView, "model">): string {
  if (model === "demo") return SHARED.recorded.demo;
  const file = model.startsWith("replay:") ? model.slice("replay:".length).split(/[/\\]/).pop() : "";
  return file ? filled(SHARED.recorded.answersOf, { file }) : SHARED.recorded.answers;
}

/** "A recording approved 2 calls". */
export function approvedByRecordingWords(count: number): string {
  return filled(SHARED.recorded[count === 1 ? "approvedOne" : "approved"], { count });
}

export function policyWords(policy: RunView["policy"]): string {
  const allowing = policy.rules.filter((rule) => rule.text.startsWith("allow")).length;
  const others = policy.rules.length - allowing;
  const parts = [capitalised(SHARED.modes[policy.mode])];
  if (allowing > 0) parts.push(filled(SHARED.rules[allowing === 1 ? "allows" : "allow"], { count: allowing }));
  if (others > 0) parts.push(filled(SHARED.rules[others === 1 ? "stops" : "stop"], { count: others }));
  return parts.join(", ");
}

const DIGEST = new RegExp(`(${Object.keys(SHARED.ruleTexts).join("|")})[0-9a-f]{64}`, "g");

/** A rule to be read: "allow run_shell inside walls, this exact call". */
export function ruleText(text: string): string {
  return text.replace(DIGEST, (_, before: keyof typeof SHARED.ruleTexts) => SHARED.ruleTexts[before]);
}

/** What a call does, before the summary of its arguments: "Read"; empty for a tool that is not built in. `cell` is the number of the cell that it is about. */
export function titleOf(toolName: string, summary: string, cell: number | null = null): string {
  const ofCell = new Map(Object.entries(SHARED.titlesOfCells)).get(toolName);
  if (cell !== null && ofCell !== undefined) return filled(ofCell, { cell });
  const titles = new Map(Object.entries({ ...SHARED.titles, ...(summary === "" ? {} : SHARED.titlesOf) }));
  return titles.get(toolName) ?? "";
}

/** What a call does, without its arguments: "Run Python"; of a tool that is not built in its name. */
export function nameOf(toolName: string): string {
  return titleOf(toolName, "") || visible(toolName);
}

/** "The model has seen this plot." */
export function seenWords(seen: number, shown: number): string {
  return filled(SHARED.seen[seen < shown ? "some" : seen === 1 ? "one" : "all"], { seen, shown });
}

/** "from 2 minutes ago": the age that a stored outcome had at `endedAt`. */
export function storedWords(cachedAt: string, endedAt: string): string {
  const minutes = Math.max(0, Math.floor((Date.parse(endedAt) - Date.parse(cachedAt)) / 60_000));
  return filled(SHARED.stored[minutes === 0 ? "now" : minutes === 1 ? "one" : "more"], { minutes });
}

/** "The budget is reached" */
export function pausedWords({ of, repeated, unpriced }: PauseView): string {
  const { paused } = SHARED;
  if (repeated) return capitalised(paused.repeats);
  if (unpriced) return capitalised(of === "conversation" ? paused.unpricedConversation : paused.unpricedRun);
  return capitalised(of === "conversation" ? paused.conversation : paused.run);
}

/** "Rate limited", "next try in 24 s (try 2 of 4)", and whether that can be hurried. `now` is the runtime's, in ms. */
export function delayWords(delay: DelayView, now: number): { what: string; when: string; waits: boolean } {
  const what = SHARED.delays[delay.kind];
  const { attempt, tries, until } = delay;
  if (!until) return { what, when: wholeSeconds(now - Date.parse(delay.since)), waits: delay.kind !== "slow" };
  const left = Date.parse(until) - now;
  const next =
    left > 0
      ? filled(SHARED.delayed.next, { left: wholeSeconds(left + 999) })
      : filled(SHARED.delayed.now, { gone: wholeSeconds(-left) });
  const count = tries ? ` (${filled(SHARED.delayed.count, { attempt, tries })})` : "";
  return { what, when: next + count, waits: left > 0 };
}

/** "Budget raised by ana" */
export function raisedWords({ of, repeated, without_usd }: BudgetRaise, by: string): string {
  if (repeated) return filled(SHARED.raised.repeats, { repeated, by });
  return filled(without_usd ? SHARED.raised.withoutUsd : SHARED.raised[of ?? "run"], { by });
}

/** Who decided. */
export interface Decider {
  readonly kind: "you" | "other" | "policy" | "script";
  /** "ana", "another tab", "a recording". */
  readonly name: string | null;
}

/** "you", "ana", "policy", "a recording": as the end of "Approved by". */
export function byWhom(decider: Decider): string {
  if (decider.kind === "script" && decider.name !== null) return decider.name;
  if (decider.kind === "other") return decider.name ?? ANOTHER_TAB;
  return SHARED.deciders[decider.kind === "you" ? "user" : decider.kind];
}

/** A template's `{name}`s, replaced. */
export function filled(template: string, values: Readonly<Record<string, string | number>>): string {
  return template.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(values[name]));
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** `changedAt` is as `undo` of a call: when what comes back was there last; empty where it was not there. */
export function wayBack(toolName: string, changedAt: string | null): string {
  const what = ON_CELLS.includes(toolName) ? "cell" : "file";
  return changedAt ? `Puts back the ${what} of ${timeOfDay(changedAt)}.` : `Removes the ${what} again.`;
}

/** What has become of a file or a cell whose change was undone. */
export function asBefore(subject: string, changedAt: string | null): string {
  return `${subject} is ${changedAt === "" ? "removed again" : "as it was before"}. The model is told.`;
}
