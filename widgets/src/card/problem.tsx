/** Errors in words: what happened, what it means. */
import type { JSX } from "preact";
import type { ErrorCode } from "../protocol";
import type { Problem } from "../state/model";
import { sentence, timeOfDay } from "../text/format";
import { visible } from "../text/invisible";
import { SHARED } from "../text/words.gen";
import { Message } from "../ui/untrustedText";

const TITLES: Readonly<Record<ErrorCode, string>> = {
  ...SHARED.errors,
  BUDGET_EXCEEDED: "Budget reached.",
  CONFLICT: "Already decided.",
  ACCESS_DENIED: "You may not decide here.",
  INVALID_FORMAT: "Not accepted.",
  TOOL_ERROR: "A tool failed.",
};
const MEANINGS: Readonly<Partial<Record<ErrorCode, string>>> = {
  CONFLICT: "Your click changed nothing.",
  LLM_ERROR: "Nothing is lost.",
  BUDGET_EXCEEDED: "Nothing is lost.",
  KERNEL_DIED: "Its variables are gone: run the cells that make them again.",
};

/** The subject of a conflict: a call that still waits, one that was decided, or an undo. */
const CONFLICTS = {
  waiting: "Nothing was decided.",
  decided: "Already decided.",
  undo: "Not done.",
  run: "Nothing was changed.",
} as const;

export function ProblemWords({
  problem,
  about = "decided",
}: {
  problem: Problem;
  about?: keyof typeof CONFLICTS;
}): JSX.Element {
  const said = sentence(
    visible(inThisZone(problem.message.replace(/^Already decided: ./, (start) => start.slice(-1).toUpperCase()))),
  );
  const own = SHARED.ownTitles.find((title) => said.startsWith(title)) ?? "";
  const uncheckable = problem.code === "BUDGET_EXCEEDED" && said.includes("can't be checked");
  const meaning = own !== "" || about === "undo" || about === "run" ? "" : (MEANINGS[problem.code] ?? "");
  return (
    <>
      <b>
        {problem.code === "CONFLICT"
          ? CONFLICTS[about]
          : uncheckable
            ? "Budget not checked."
            : own || TITLES[problem.code]}
      </b>
      {own === "" && " "}
      <Message text={said.slice(own.length)} /> {said.includes(meaning) ? "" : meaning}
    </>
  );
}

/** The runtime gives times in UTC. */
function inThisZone(text: string): string {
  return text.replaceAll(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (time) => timeOfDay(time));
}
