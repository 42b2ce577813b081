/** The runs that wait for a person, from the server: also those without a card in the page. */

interface Wait {
  readonly kind: "approval" | "answer" | "outcome" | "budget" | "repeat" | "run";
  readonly tool_name?: string | null;
}

/** Of the list of runs, what is read here. */
interface ListedRun {
  readonly run_id: string;
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
  readonly cellId: string | null;
  /** How many calls, questions and pauses wait. */
  readonly count: number;
  readonly words: string;
}

/** Runs that wait for a person, those that wait for another run left out. */
export function waitingRuns(runs: readonly ListedRun[]): Waiting[] {
  return runs.flatMap((run) => {
    const waits = run.waits_for.filter((wait) => wait.kind !== "run");
    const [first] = waits;
    if (first === undefined) return [];
    const more = waits.length > 1 ? ` and ${waits.length - 1} more` : "";
    const { run_id: runId, prompt, notebook, cell_id: cellId } = run;
    return [
      { runId, prompt, notebook, cellId, count: waits.length, words: `Waiting for you: ${subject(first)}${more}` },
    ];
  });
}

/** For a place that all notebooks share. */
export function summary(waiting: readonly Waiting[]): string {
  const count = waiting.reduce((sum, one) => sum + one.count, 0);
  return count === 0 ? "" : count === 1 ? "1 call waits for you" : `${count} calls wait for you`;
}

function subject({ kind, tool_name: tool }: Wait): string {
  if (kind === "budget") return "its budget";
  if (kind === "repeat") return "it repeats itself";
  return kind === "answer" ? "a question" : (tool ?? "a call");
}
