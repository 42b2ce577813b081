/** The runs that the server knows, and which of them wait for a person: also those without a card in the page. */
import { plural } from "../../src/text/format";

interface Wait {
  readonly kind: "approval" | "answer" | "outcome" | "budget" | "repeat" | "run";
  readonly tool_name?: string | null;
}

/** Of the list of runs, what is read here. */
export interface ListedRun {
  readonly run_id: string;
  readonly conversation_id: string;
  readonly status?: string;
  readonly prompt: string;
  readonly notebook: string | null;
  readonly kernel_id: string | null;
  readonly cell_id: string | null;
  readonly waits_for: readonly Wait[];
}

export interface Waiting {
  readonly runId: string;
  readonly prompt: string;
  readonly notebook: string | null;
  readonly kernelId: string | null;
  readonly cellId: string | null;
  /** How many calls and questions wait. */
  readonly calls: number;
  /** The run itself waits: it has reached a budget, or repeats itself. */
  readonly paused: boolean;
  readonly words: string;
}

/** Runs that wait for a person, those that wait for another run left out. */
export function waitingRuns(runs: readonly ListedRun[]): Waiting[] {
  return runs.flatMap((run) => {
    const waits = run.waits_for.filter((wait) => wait.kind !== "run");
    const [first] = waits;
    if (first === undefined) return [];
    const more = waits.length > 1 ? ` and ${waits.length - 1} more` : "";
    const { run_id: runId, prompt, notebook, kernel_id: kernelId, cell_id: cellId } = run;
    const calls = waits.filter((wait) => !isPause(wait)).length;
    const words = `Waiting for you: ${subject(first)}${more}`;
    return [{ runId, prompt, notebook, kernelId, cellId, calls, paused: calls < waits.length, words }];
  });
}

/** Beside a cell that lacked what a run above it may make. `number` is the prompt's, as in `[2]`. */
export function wordsOfOpen({ waits_for: waits }: ListedRun, number: number | null): string {
  return `${runIn(number)} ${waits.some((wait) => wait.kind !== "run") ? "waits for you" : "has not ended"} ·`;
}

export function wordsOfEnded(status: string | undefined, number: number | null): string {
  return `${runIn(number)} ${status === "complete" ? "has ended" : "ended without an answer"} ·`;
}

function runIn(number: number | null): string {
  return number === null ? "The run above" : `The run in [${number}]`;
}

/** For a place that all notebooks share. */
export function summary(waiting: readonly Waiting[]): string {
  const calls = waiting.reduce((sum, one) => sum + one.calls, 0);
  const paused = waiting.filter((one) => one.paused).length;
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
  return kind === "answer" ? "a question" : (tool ?? "a call");
}
