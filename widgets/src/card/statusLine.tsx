/** The line that says who decided, why, and what it means. */
import type { ComponentChildren, JSX } from "preact";
import type { Call, Problem } from "../state/model";
import { streamText } from "../state/outputs";
import { ON_CELLS } from "../text/arguments";
import { sentence, timeOfDay } from "../text/format";
import { errorLine } from "../text/traceback";
import { asBefore, byWhom, filled, wayBack } from "../text/words";
import { SHARED } from "../text/words.gen";
import { Quoted, Button, PressedButton, Plain, Message } from "../ui/parts";
import { Icon } from "../ui/icon";
import type { CallModel } from "../store/run";
import { useRun } from "./context";
import type { ErrorCode } from "../protocol";
import { visible } from "../text/invisible";

export function statusLine(card: CallModel, folded: boolean): JSX.Element | null {
  const call = card.call.value;
  switch (call.state) {
    case "denied":
      return (
        <Line>
          <Denial call={call} /> <span class="ak-muted">{SHARED.nothingRan}</span>
        </Line>
      );
    case "approved":
      return <Line>This call starts when the kernel is free.</Line>;
    case "executing":
      if (call.waiting_behind === null) return null;
      return <Line>{filled(SHARED.card.behindCell, { cell: call.waiting_behind })}</Line>;
    case "cancelled":
      return (
        <Line>
          <Cancellation call={call} />
        </Line>
      );
    case "error":
      return folded ? (
        <FoldedError call={call} />
      ) : (
        <RetryRow card={card} note="The model was told and may try another way." />
      );
    case "success":
      return folded || call.cached_at === null ? null : (
        <RetryRow card={card} note={`${SHARED.card.stored} ${SHARED.nothingRan}`} />
      );
    case "unknown":
      return (
        <>
          <Unknown call={call} asks={card.yours.value} />
          <LookRow card={card} />
        </>
      );
    default:
      return null;
  }
}

function Line({ children }: { children: ComponentChildren }): JSX.Element {
  return (
    <div class="ak-sub">
      <p>{children}</p>
    </div>
  );
}

/** "Approved by you, 14:06:31". */
export function decidedBy(call: Call): string | null {
  if (call.decider === null) return null;
  if (call.decider.kind === "policy") return `Allowed by ${byWhom(call.decider)}`;
  return `${call.edited ? "Edited and approved" : "Approved"} by ${byWhom(call.decider)}${decidedAt(call)}`;
}

function decidedAt({ decided_at: at }: Call): string {
  return at === null ? "" : `, ${timeOfDay(at)}`;
}

function RetryRow({ card, note }: { card: CallModel; note: string }): JSX.Element {
  const run = useRun();
  const call = card.call.value;
  const retry = card.retry.value;
  const stopped = stoppedByWalls(call) !== "";
  // A rule or a mode that let this call run unasked would do so again.
  const asks = run.store.asksFirst.value && (call.decider?.kind === "you" || call.decider?.kind === "other");
  return (
    <div class="ak-actions">
      {retry === "offered" && <Button name={SHARED.actions.runAgain} small onPress={() => run.retry(card)} />}
      {retry === "offered" && stopped && <Button name="Run outside once" small onPress={() => run.retry(card, true)} />}
      {retry === "offered" && (asks || stopped) && (
        <span class="ak-note ak-beside">{asks ? "Asks you first." : "Outside asks you first."}</span>
      )}
      {retry === "asked" && <span>You asked the model to run it again.</span>}
      <span class="ak-note">{note}</span>
    </div>
  );
}

function LookRow({ card }: { card: CallModel }): JSX.Element {
  const run = useRun();
  const retry = card.retry.value;
  const asks = card.yours.value;
  return (
    <div class="ak-actions ak-decide">
      {retry === "offered" && <Button name={SHARED.actions.runAgain} onPress={() => run.retry(card)} />}
      {retry === "offered" && asks && <Button name={SHARED.actions.goOn} onPress={() => run.proceed(card)} />}
      {retry === "offered" && asks && <span class="ak-note">{SHARED.card.outcomeNote}</span>}
      {retry === "sent" && <span>Sent to the agent.</span>}
      {retry === "asked" && <span>You asked the model to run it again. It asks you first.</span>}
      {!asks && (retry === "no" || retry === "offered") && (
        <span class="ak-note">The model was told that the outcome is unknown.</span>
      )}
    </div>
  );
}

function Denial({ call }: { call: Call }): JSX.Element {
  const { decider, reason } = call;
  if (decider === null || decider.kind === "policy") {
    const rule = /^By policy: ((?:deny|ask) .+)\.$/.exec(reason ?? "")?.[1];
    if (rule !== undefined)
      return (
        <>
          By policy: <Quoted text={rule} />.
        </>
      );
    return reason === null ? <>By this site’s policy.</> : <Plain text={sentence(reason)} />;
  }
  return (
    <>
      By {byWhom(decider)}
      {decidedAt(call)}
      {reason ? (
        <>
          :{" "}
          <q>
            <Plain text={reason} />
          </q>
        </>
      ) : (
        "."
      )}
    </>
  );
}

function Cancellation({ call }: { call: Call }): JSX.Element {
  if (call.tool_name === "ask_user") return <>The model was told that you did not answer.</>;
  const reason = call.reason === null ? "" : `${sentence(call.reason)} `;
  const meaning =
    call.started_at === null ? SHARED.nothingRan : "The kernel was interrupted; what ran before that stays.";
  return (
    <>
      <Plain text={reason} />
      {reason.includes(meaning) ? "" : <span class="ak-muted">{meaning}</span>}
    </>
  );
}

/** Whether a call has failed because it took too long: the log says so in these words (`tool_calls/timing`). */
export function timedOut(call: Call): boolean {
  return call.state === "error" && (call.reason ?? "").startsWith("Timed out after ");
}

/** The line in which the result of a shell command says that the walls around it have stopped it; "" if none does. */
function stoppedByWalls(call: Call): string {
  return call.tool_name === "run_shell" ? (/^stopped by the walls: .*/m.exec(call.result ?? "")?.[0] ?? "") : "";
}

function FoldedError({ call }: { call: Call }): JSX.Element {
  const failure = call.outputs.blocks.findLast((block) => block.kind === "error");
  const text = timedOut(call) ? (call.reason ?? "") : failure?.kind === "error" ? failure.text : (call.result ?? "");
  return (
    <Line>
      <Quoted text={stoppedByWalls(call) || errorLine(text)} />
    </Line>
  );
}

function Unknown({ call, asks }: { call: Call; asks: boolean }): JSX.Element {
  const stream = call.outputs.blocks.findLast((block) => block.kind === "stream");
  const last = stream?.kind === "stream" ? errorLine(streamText(stream)) : "";
  return (
    <div class="ak-say">
      <p>
        {call.reason === null ? "Nobody can say what became of this call." : <Plain text={sentence(call.reason)} />}{" "}
        {SHARED.mayHaveRun}
        {asks && ` ${SHARED.card.look}`}
      </p>
      <p class="ak-muted ak-num">
        {call.started_at !== null && `Started ${timeOfDay(call.started_at)}. `}
        {last !== "" && (
          <>
            Last output: <Quoted text={last} />.
          </>
        )}
      </p>
    </div>
  );
}

/** Below what a call wrote: who allowed it, and the way back while there is one. */
export function UndoRow({ card }: { card: CallModel }): JSX.Element | null {
  const run = useRun();
  const call = card.call.value;
  const undo = card.undo.value;
  const by = call.preview?.kind === "diff" ? decidedBy(call) : null;
  if (undo === "no" && by === null) return null;
  return (
    <div class="ak-actions">
      {undo === "offered" && <Button name="Undo" small icon={<Icon name="undo" />} onPress={() => run.undo(card)} />}
      {undo === "offered" && <span class="ak-note ak-beside">{wayBack(call.tool_name, call.undo)}</span>}
      {run.store.undoesAll.value === card.id && <Button name="Undo this run" small onPress={() => run.undoAll()} />}
      {undo === "asked" && <PressedButton name={call.undone ? "Redoing…" : "Undoing…"} />}
      {(undo === "redo" || undo === "done") && (
        <>
          <span>
            <b>Undone.</b> {asBefore(ON_CELLS.includes(call.tool_name) ? "The cell" : "The file", call.undo)}
          </span>
          {undo === "redo" && <Button name="Redo" small onPress={() => run.undo(card)} />}
        </>
      )}
      {by !== null && <span class="ak-note">{by}</span>}
    </div>
  );
}

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
