/** One tool call: its head, the call itself, what was decided, what came out. */
import type { ComponentChildren, JSX, TargetedKeyboardEvent } from "preact";
import { memo } from "preact/compat";
import { useLayoutEffect, useMemo } from "preact/hooks";
import { needsYou, type Call } from "../state/model";
import { pictureCount } from "../state/outputs";
import { lineCount, ON_CELLS, parseArguments, shownCall, summary } from "../text/arguments";
import { cut, duration, plural, wholeSeconds } from "../text/format";
import { visible } from "../text/invisible";
import { seenWords, storedWords, titleOf } from "../text/words";
import { SHARED } from "../text/words.gen";
import { Quoted, OnceButton, Fold, useSeconds, Plain } from "../ui/parts";
import { Icon } from "../ui/icon";
import { keyOf, pressByKey } from "../ui/keys";
import { AllowPanel } from "./allow";
import { CallBody, StaleCell, changeCount } from "./code";
import type { RunController } from "../store/controller";
import { type CallModel, type RunStore, folds } from "../store/run";
import { useRun } from "./context";
import { DecisionRow, ReasonPanel, SentRow } from "./decision";
import { Draft, EditActions, EditPanel } from "./edit";
import { ASKING, CALL_STATES, type StateLook } from "./looks";
import { OutputList, OutputNote } from "./outputs";
import { ProblemWords, UndoRow, decidedBy, statusLine, timedOut } from "./statusLine";
import { Question } from "./question";

/** The reason that the log has where a cell was run again: see `stop_for`. */
const RUN_AGAIN = "Its cell was run again.";

/** Characters of a result. */
const RESULT_SHOWN = 20_000;

export const Card = memo(function Card({ card }: { card: CallModel }): JSX.Element {
  const run = useRun();
  const draft = useMemo(() => new Draft(card.call), [card]);
  const call = card.call.value;
  const yours = card.yours.value;
  const fold = card.fold.value;
  const line = card.line.value;
  const folded = line && folds(call.state);
  useLayoutEffect(() => {
    if (yours) run.cameToAsk();
  }, [run, yours]);
  return (
    <div
      class="ak-card"
      role="group"
      aria-label={`Tool call: ${visible(call.tool_name)}`}
      data-tool-call-id={call.tool_call_id}
      data-state={call.state}
      data-turn={yours ? "you" : undefined}
      data-current={card.current.value ? "" : undefined}
      data-line={line ? "" : undefined}
      data-shown={fold === "shown" && call.state === "success" ? "" : undefined}
      tabIndex={yours ? 0 : -1}
      onKeyDown={(event) => takeKey(event, card, run)}
    >
      <Head card={card} draft={draft} />
      {!folded && <TheCall card={card} draft={draft} />}
      <OutputList outputs={call.outputs} hidden={folded} />
      {!folded && hasRun(call) && <Outcome card={card} />}
      {statusLine(card, folded)}
      {call.problem !== null && (
        <div class="ak-say" role="alert">
          <ProblemWords
            problem={call.problem}
            about={call.state === "awaiting_approval" ? "waiting" : call.undo !== null ? "undo" : "decided"}
          />
        </div>
      )}
    </div>
  );
});

function takeKey(event: TargetedKeyboardEvent<HTMLElement>, card: CallModel, run: RunController): void {
  const place = event.currentTarget;
  if (pressByKey(event, place, place.parentElement?.querySelector(".ak-batch"))) return;
  const step = { ArrowUp: -1, ArrowDown: 1 }[keyOf(event) ?? ""];
  if (step !== undefined) {
    event.preventDefault();
    run.move(card.id, step);
  } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && needsYou(card.call.peek())) {
    // What waits for an answer, or for the answer to arrive, is not run again by the key that answers.
    event.preventDefault();
  }
}

interface PartProps {
  card: CallModel;
  draft: Draft;
}

function Head({ card, draft }: PartProps): JSX.Element {
  const run = useRun();
  const { recorded, gone } = run.store;
  const call = card.call.value;
  const open = card.fold.value === "open";
  const look = lookOf(card, run.store);
  const ends = folds(call.state);
  const inner = (
    <>
      <Icon name={look.icon} tone={look.tone} />
      <HeadWords card={card} draft={draft} />
      <span class="ak-state">
        {(call.recorded || recorded.value) && call.state === "awaiting_approval" && (
          <span class="ak-tag">{run.store.isDemo.value ? SHARED.recorded.demo : SHARED.recorded.answers}</span>
        )}
        <span class="ak-word">{look.word}</span>
        {ends ? endNote(call) !== "" && <span class="ak-muted">{endNote(call)}</span> : <Seconds call={call} />}
        {ends && <Icon name={open ? "down" : "right"} tone="ak-chev" />}
        {!gone.value && (call.state === "approved" || call.state === "executing") && call.tool_name !== "ask_user" && (
          <OnceButton
            name="Cancel"
            pressed="Cancelling…"
            onPress={() => run.send({ type: "tool_cancel", tool_call_id: call.tool_call_id })}
          />
        )}
      </span>
    </>
  );
  if (!ends) return <div class="ak-head">{inner}</div>;
  return (
    <button type="button" class="ak-head" aria-expanded={open} onClick={() => (card.opened.value = !open)}>
      {inner}
    </button>
  );
}

function lookOf(card: CallModel, { off }: RunStore): StateLook {
  const call = card.call.value;
  if (call.state === "executing" && call.tool_name === "ask_user") return ASKING;
  if (call.state === "executing" && call.waiting_behind !== null) return CALL_STATES.approved;
  const look = CALL_STATES[call.state];
  if (call.state !== "awaiting_approval") return look;
  const pending = card.pending.value;
  const choice = pending?.command.approved ? "Approve" : "Deny";
  if (pending?.status === "queued") return { word: `${choice} not sent yet`, icon: "clock", tone: "ak-calm" };
  return off.value ? { word: "Waiting, decisions off", icon: "wait", tone: "ak-calm" } : look;
}

/** What the call does, with what, and the tool's name. */
function HeadWords({ card, draft }: PartProps): JSX.Element {
  const { tool_name: name, tool_input: input, preview } = card.call.value;
  const said = headNote(card, draft);
  const cell = preview?.cell ?? null;
  const object = said === null ? summary(name, input, cell) : "";
  const title = titleOf(name, object, cell);
  const tool = <Plain text={name} />;
  return (
    <>
      {title === "" ? <code class="ak-title">{tool}</code> : <span class="ak-title">{title}</span>}
      {said !== null && said !== "" && <span class="ak-sum">{said}</span>}
      {object !== "" && (
        <code class="ak-sum">
          <Plain text={object} />
        </code>
      )}
      {title !== "" && <code class="ak-tool">{tool}</code>}
    </>
  );
}

/** What a head says in place of a summary of the arguments; `null` where it has that. */
function headNote(card: CallModel, draft: Draft): ComponentChildren {
  const call = card.call.value;
  if (call.state === "awaiting_approval" && card.panel.value === "edit") return draft.note.value;
  if (call.tool_name === "ask_user" && call.state === "executing") return "";
  if (call.state === "invalid") return <Plain text={call.reason ?? call.result ?? ""} />;
  if (call.state !== "awaiting_approval" || call.tool_input === null) return null;
  const { kind, language, text } = shownCall(call.tool_name, call.tool_input, call.preview);
  const cell = ON_CELLS.includes(call.tool_name);
  const runs = !cell || call.tool_name === "run_cell" || parseArguments(call.tool_input)?.["run"] === true;
  if (cell && kind === "diff") return `${changeCount(text)}${runs ? ", which is then run" : ""}`;
  const lines = plural(lineCount(text), "line");
  if (language === "python") return `${lines}${runs ? ", in this notebook’s kernel" : ""}`;
  return language === "shell" ? lines : null;
}

function Seconds({ call }: { call: Call }): JSX.Element | null {
  const run = useRun();
  const ticking = (call.state === "executing" || call.state === "approved") && call.tool_name !== "ask_user";
  useSeconds(ticking);
  const since = call.started_at ?? call.decided_at;
  if (!ticking || since === null) return null;
  return <span class="ak-muted">{wholeSeconds(run.now() - Date.parse(since))}</span>;
}

/** What the head says of a call that has ended. */
function endNote(call: Call): string {
  switch (call.state) {
    case "success":
      if (call.cached_at !== null && call.ended_at !== null) return storedWords(call.cached_at, call.ended_at);
      // Of a diff that is not shown whole, the lines that are would be too few.
      if (call.preview?.kind === "diff" && !call.preview.left_out) return changeCount(call.preview.text);
      return call.duration_ms === null ? "" : duration(call.duration_ms);
    case "error":
    case "cancelled":
      return call.duration_ms === null || call.started_at === null ? "" : duration(call.duration_ms);
    case "invalid":
      return "Model was told";
    case "superseded":
      return call.reason === RUN_AGAIN ? "its cell was run again" : "by your new message";
    case "expired":
      return "nothing ran";
    default:
      return "";
  }
}

/** What is above the outputs. */
function TheCall({ card, draft }: PartProps): JSX.Element | null {
  const { gone } = useRun().store;
  const call = card.call.value;
  switch (call.state) {
    case "awaiting_approval":
      return <Waiting card={card} draft={draft} />;
    case "executing":
      return call.tool_name === "ask_user" && !gone.value ? <Question card={card} /> : <FoldedCall call={call} />;
    case "success":
      if (card.fold.value === "shown") return null;
      return call.preview?.kind === "diff" ? <WholeCall call={call} named /> : <FoldedCall call={call} />;
    case "approved":
    case "error":
    case "unknown":
      return <FoldedCall call={call} />;
    case "cancelled":
      return call.started_at === null ? <WholeCall call={call} /> : <FoldedCall call={call} />;
    case "proposed":
      return null;
    case "invalid":
    case "denied":
    case "superseded":
    case "expired":
      return <WholeCall call={call} />;
  }
}

/** `named`: arguments that a warning names are not said again. */
function WholeCall({ call, named = false }: { call: Call; named?: boolean }): JSX.Element | null {
  const { tool_name: name, tool_input: input, preview, warnings } = call;
  return input === null ? null : (
    <CallBody name={name} input={input} preview={preview} warnings={named ? warnings : []} />
  );
}

function Waiting({ card, draft }: PartProps): JSX.Element {
  const run = useRun();
  const { off } = run.store;
  const call = card.call.value;
  const pending = card.pending.value;
  const open = pending === null && !off.value ? card.panel.value : "none";
  return (
    <>
      {open === "edit" ? <EditPanel call={call} draft={draft} /> : <WholeCall call={call} named />}
      <StaleCell call={call} />
      <Warnings call={call} note={open === "edit" ? "The model is told that you changed the call." : ""} />
      {pending !== null ? (
        <SentRow choice={pending.command.approved ? "Approve" : "Deny"} sent={pending} />
      ) : open === "none" || open === "run" || open === "allow" ? (
        <DecisionRow card={card} />
      ) : null}
      {open === "edit" && <EditActions card={card} draft={draft} />}
      {open === "reason" && <ReasonPanel card={card} draft={draft.reason} />}
      {(open === "run" || open === "allow") && <AllowPanel key={open} card={card} panel={open} />}
    </>
  );
}

function Warnings({ call, note }: { call: Call; note: string }): JSX.Element | null {
  if (call.warnings.length === 0)
    return note === "" ? null : (
      <div class="ak-line">
        <span class="ak-note">{note}</span>
      </div>
    );
  return (
    <div class="ak-line">
      {call.warnings.map((warning, index) => (
        <span key={index}>
          {index === 0 && <Icon name="warn" tone="ak-warn" />}
          <span>
            <b>
              {warning.title.replace(/:$/, "")}
              {warning.detail === "" ? "" : ":"}
            </b>{" "}
            {warning.detail !== "" && <Quoted text={warning.detail} />}
          </span>
        </span>
      ))}
      {(note !== "" || hasCode(call)) && (
        <span class="ak-note ak-right">{note === "" ? "Found by reading the code; it may do more." : note}</span>
      )}
    </div>
  );
}

/** What a call of another tool does is in its arguments, and was not found by reading code. */
function hasCode(call: Call): boolean {
  return ["run_python", "run_shell", "run_cell", "edit_cell", "insert_cell"].includes(call.tool_name);
}

function hasRun({ state, started_at }: Call): boolean {
  return ["success", "error", "unknown"].includes(state) || (state === "cancelled" && started_at !== null);
}

/** What is below the outputs. */
function Outcome({ card }: { card: CallModel }): JSX.Element {
  const call = card.call.value;
  return (
    <>
      {call.seen_images > 0 && <OutputNote text={seenWords(call.seen_images, pictureCount(call.outputs))} />}
      <ResultText call={call} />
      {call.truncated && <OutputNote text="The model was given the beginning and the end of this output." />}
      {call.output_file !== null && (
        <div class="ak-out ak-note">
          All of the output is in <Quoted text={call.output_file} />
        </div>
      )}
      {timedOut(call) && <OutputNote text={call.reason ?? ""} />}
      {(call.state === "success" || call.undo !== null) && <UndoRow card={card} />}
    </>
  );
}

/** The tool's result, for tools that show nothing by themselves. */
function ResultText({ call }: { call: Call }): JSX.Element | null {
  const failed = call.state === "error";
  const wrote = call.state === "success" && call.preview?.kind === "diff";
  if (call.outputs.blocks.length > 0 || wrote || !call.result || (call.state !== "success" && !failed)) return null;
  return (
    <div class={failed ? "ak-out ak-err" : "ak-out"}>
      <pre dir="ltr">
        <Plain text={cut(call.result, RESULT_SHOWN)} />
      </pre>
    </div>
  );
}

function FoldedCall({ call }: { call: Call }): JSX.Element | null {
  const { tool_name: name, tool_input: input, preview } = call;
  if (input === null) return null;
  const shown = shownCall(name, input, preview);
  const code = shown.kind === "diff" ? "Changes" : `Code, ${plural(lineCount(shown.text), "line")}`;
  return (
    <Fold title={shown.language === "json" ? "Arguments" : code} end={decidedBy(call)}>
      {() => <CallBody name={name} input={input} preview={preview} />}
    </Fold>
  );
}
