/** The runs that the server knows, and which of them wait for a person: also those without a card in the page. */
import type { RunView } from "../../src/protocol";
import { duration, money, plural, wholeSeconds } from "../../src/text/format";
import { nameOf } from "../../src/text/words";

interface Wait {
  readonly kind: "approval" | "answer" | "outcome" | "budget" | "repeat" | "run";
  readonly tool_name?: string | null;
}

/** Where a run was asked for. */
export interface RunPlace {
  readonly notebook: string | null;
  readonly kernel_id: string | null;
  readonly cell_id: string | null;
}

/** Of the list of runs, what is read here. */
export interface ListedRun extends RunPlace {
  readonly run_id: string;
  readonly conversation_id: string;
  readonly status: RunView["status"];
  readonly prompt: string;
  readonly started_at: string;
  readonly ended_at?: string | null;
  readonly usage: Pick<RunView["usage"], "cost" | "cost_is_partial">;
  readonly waits_for: readonly Wait[];
  /** A page shows it now. */
  readonly shown: boolean;
}

export interface Waiting {
  readonly run: ListedRun;
  /** How many calls and questions wait. */
  readonly calls: number;
  /** The run itself waits: it has reached a budget, or repeats itself. */
  readonly paused: boolean;
  readonly words: string;
}

/** Runs of one notebook, or of none. */
export interface NotebookRuns {
  readonly notebook: string | null;
  readonly runs: readonly ListedRun[];
}

/** Runs that wait for a person, those that wait for another run left out. */
export function waitingRuns(runs: readonly ListedRun[]): Waiting[] {
  return runs.flatMap((run) => {
    const waits = run.waits_for.filter((wait) => wait.kind !== "run");
    const [first] = waits;
    if (first === undefined) return [];
    const more = waits.length > 1 ? ` and ${waits.length - 1} more` : "";
    const calls = waits.filter((wait) => !isPause(wait)).length;
    const words = `Waiting for you: ${subject(first)}${more}`;
    return [{ run, calls, paused: calls < waits.length, words }];
  });
}

/** By notebook: first the runs that are in `first`, and their notebooks; within and beside them the newest. */
export function byNotebook(runs: readonly ListedRun[], first: ReadonlySet<string>): NotebookRuns[] {
  const newest = runs.toReversed();
  const isFirst = ({ run_id: id }: ListedRun): boolean => first.has(id);
  const groups = new Map<string | null, ListedRun[]>();
  for (const run of [...newest.filter(isFirst), ...newest.filter((one) => !isFirst(one))]) {
    const group = groups.get(run.notebook);
    if (group === undefined) groups.set(run.notebook, [run]);
    else group.push(run);
  }
  return [...groups].map(([notebook, its]) => ({ notebook, runs: its }));
}

/** How a run stands, how long it took or takes, and what it has cost: `Done`, `2.1 s`, `$0.004`. */
export function standOf(run: ListedRun, now: number): string[] {
  const [waiting] = waitingRuns([run]);
  const word = waiting?.words ?? (run.waits_for.length > 0 ? "Waits for another run" : STANDS[run.status]);
  const { started_at: began, ended_at: ended, usage } = run;
  const took = ended ? duration(Date.parse(ended) - Date.parse(began)) : wholeSeconds(now - Date.parse(began));
  return [word, took, ...(usage.cost === null ? [] : [money(usage.cost, usage.cost_is_partial)])];
}

const STANDS: Readonly<Record<RunView["status"], string>> = {
  queued: "Queued",
  running: "Running",
  complete: "Done",
  cancelled: "Stopped",
  error: "Failed",
};

/** Beside a cell that lacked what a run above it may make. `number` is the prompt's, as in `[2]`. */
export function wordsOfOpen({ waits_for: waits }: Pick<ListedRun, "waits_for">, number: number | null): string {
  return `${runIn(number)} ${waits.some((wait) => wait.kind !== "run") ? "waits for you" : "has not ended"} ·`;
}

export function wordsOfEnded(status: string | undefined, number: number | null): string {
  return `${runIn(number)} ${status === "complete" ? "has ended" : "ended without an answer"} ·`;
}

function runIn(number: number | null): string {
  return number === null ? "The run above" : `The run in [${number}]`;
}

/** How many calls, questions and paused runs wait. */
export function countOf(waiting: readonly Waiting[]): number {
  return waiting.reduce((sum, { calls, paused }) => sum + calls + Number(paused), 0);
}

/** For a place that all notebooks share. */
export function summary(waiting: readonly Waiting[]): string {
  const paused = waiting.filter((one) => one.paused).length;
  const calls = countOf(waiting) - paused;
  const parts = [calls > 0 ? plural(calls, "call") : "", paused > 0 ? plural(paused, "paused run") : ""];
  const what = parts.filter(Boolean).join(" and ");
  return what === "" ? "" : `${what} ${calls + paused === 1 ? "waits" : "wait"} for you`;
}

function isPause({ kind }: Wait): boolean {
  return kind === "budget" || kind === "repeat";
}

function subject({ kind, tool_name: tool }: Wait): string {
  if (kind === "budget") return "its budget";
  if (kind === "repeat") return "it repeats itself";
  return kind === "answer" ? "a question" : tool ? nameOf(tool) : "a call";
}
