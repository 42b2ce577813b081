/** What the run or the line says, as against what a call says: what happened, what it means, what can be done. */
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { DECISIONS_OFF_AFTER_MS, type Connection } from "../channel/channel";
import type { ErrorCode } from "../protocol";
import type { Problem } from "../state";
import { timeOfDay, wholeSeconds } from "../text/format";
import { visible } from "../text/invisible";
import { Button } from "../ui/button";
import { useSeconds } from "./context";
import { Icon } from "../ui/icon";
import { Plain } from "../ui/text";

const TITLES: Readonly<Record<ErrorCode, string>> = {
  BUDGET_EXCEEDED: "Budget reached.",
  LLM_ERROR: "The model did not answer.",
  KERNEL_DIED: "The kernel was lost.",
  CONFLICT: "Already decided.",
  ACCESS_DENIED: "You may not decide here.",
  INVALID_FORMAT: "Not accepted.",
  TOOL_ERROR: "A tool failed.",
  INTERNAL_ERROR: "Something broke in Agent Kernel, not in your code.",
};

const MEANINGS: Readonly<Partial<Record<ErrorCode, string>>> = {
  CONFLICT: "Your click changed nothing.",
  LLM_ERROR: "Nothing is lost.",
  BUDGET_EXCEEDED: "Nothing is lost.",
  INTERNAL_ERROR: "The run is stopped; the log has the details.",
};

export function Notice({ problem, onRetry }: { problem: Problem; onRetry: (() => void) | null }): JSX.Element {
  const quiet = problem.code === "CONFLICT";
  return (
    <div class="ak-bar" role={quiet ? "status" : "alert"} data-code={problem.code}>
      <Icon
        name={quiet ? "skip" : problem.code === "BUDGET_EXCEEDED" ? "gauge" : "cross"}
        tone={quiet ? "ak-calm" : "ak-bad"}
      />
      <ProblemWords problem={problem} about={problem.message.startsWith("This run ") ? "run" : "decided"} />
      {onRetry !== null && <Button name="Try again" small onPress={onRetry} />}
    </div>
  );
}

/** What the run did otherwise than asked. */
export function Note({ text, detail }: { text: string; detail: string }): JSX.Element {
  return detail === "" ? (
    <div class="ak-bar" role="status" data-role="note">
      <Icon name="skip" tone="ak-calm" />
      <span class="ak-grow">{visible(text)}</span>
    </div>
  ) : (
    <SummaryCard text={text} detail={detail} />
  );
}

/** What stands in for older messages from here on, to be opened and read. */
function SummaryCard({ text, detail }: { text: string; detail: string }): JSX.Element {
  const [open, setOpen] = useState(false);
  const id = useId();
  return (
    <div class="ak-card ak-summary" role="group" aria-label={visible(text)} data-role="note">
      <button type="button" class="ak-head" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
        <Icon name="summary" tone="ak-calm" />
        <b>{visible(text)}</b>
        <span class="ak-sum ak-whole">The model goes on with this summary. What is shown here stays as it is.</span>
        <span class="ak-state">
          <Icon name={open ? "down" : "right"} tone="ak-chev" />
        </span>
      </button>
      <div id={id} class="ak-say" hidden={!open}>
        {open && <Plain text={detail} />}
      </div>
    </div>
  );
}

/** What a conflict is about: a call that still waits, so that nobody has decided; one that was decided; or an undo. */
const CONFLICTS = {
  waiting: "Nothing was decided.",
  decided: "Already decided.",
  undo: "Not undone.",
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
  const uncheckable = problem.code === "BUDGET_EXCEEDED" && said.includes("can't be checked");
  const meaning = about === "undo" || about === "run" ? "" : (MEANINGS[problem.code] ?? "");
  return (
    <span class="ak-grow">
      <b>
        {problem.code === "CONFLICT" ? CONFLICTS[about] : uncheckable ? "Budget not checked." : TITLES[problem.code]}
      </b>{" "}
      {said} {said.includes(meaning) ? "" : meaning}
    </span>
  );
}

/** The runtime tells moments in UTC. */
function inThisZone(text: string): string {
  return text.replaceAll(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, timeOfDay);
}

function sentence(text: string): string {
  return text === "" || /[.!?:)\]]$/.test(text) ? text : `${text}.`;
}

/** Shows nothing for a connection that is open, or has been looked for only a moment. */
export function ConnectionBar(props: {
  connection: Connection;
  known: boolean;
  onRetry: () => void;
}): JSX.Element | null {
  const { connection } = props;
  useSeconds(connection.status !== "open");
  const away = Date.now() - connection.since;
  // Before a run's first event the runtime may not have heard of it yet, and refuses.
  if (connection.status === "open" || (!props.known && away < 5_000)) return null;
  if (connection.status === "gone") {
    return (
      <div class="ak-bar" role="alert">
        <Icon name="cross" tone="ak-bad" />
        <span class="ak-grow">
          <b>The kernel is gone.</b> Its variables and this run went with it. Nothing can be decided here.
        </span>
      </div>
    );
  }
  if (connection.why !== null) {
    return (
      <div class="ak-bar" role="alert">
        <Icon name="offline" tone="ak-warn" />
        <span class="ak-grow">
          <b>Agent Kernel does not work on this server.</b> {connection.why}
        </span>
        <Button name="Try again" small onPress={props.onRetry} />
      </div>
    );
  }
  if (away < DECISIONS_OFF_AFTER_MS) {
    return (
      <div class="ak-bar" role="status">
        <Icon name="run" tone="ak-calm ak-spin" />
        <span class="ak-grow">
          <b>Reconnecting.</b> You can still decide; your click is sent when the connection is back.
        </span>
        <NextTry at={connection.nextTryAt} />
      </div>
    );
  }
  return (
    <div class="ak-bar" role="alert">
      <Icon name="offline" tone="ak-warn" />
      <span class="ak-grow">
        <b>No connection for {wholeSeconds(away).replace(/ \d+ s$/, "")}.</b> Decisions are off on this page. Calls that
        run go on; nothing new starts.
      </span>
      <Button name="Try again" small onPress={props.onRetry} />
    </div>
  );
}

function NextTry({ at }: { at: number | null }): JSX.Element | null {
  const left = at === null ? 0 : Math.ceil((at - Date.now()) / 1_000);
  return left < 2 ? null : <span class="ak-muted ak-num">next try in {left} s</span>;
}
