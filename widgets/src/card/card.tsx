/** One tool call: its head, the call itself, what was decided, what came out. */
import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useContext, useState } from "preact/hooks";
import type { PendingDecision } from "../channel/decisions";
import { needsYou, type Call } from "../state";
import { pictureCount } from "../state/outputs";
import { lineCount, shownCall, summary } from "../text/arguments";
import { duration, plural, wholeSeconds } from "../text/format";
import { visible } from "../text/invisible";
import { ASKING, CALL_STATES, NEXT_IN_LINE, seenWords, type StateLook } from "../text/words";
import { CallBody, changeCount } from "./code";
import { ReceivesContext, useActions, useSeconds, type Panel, type Retry, type Undo } from "../run/context";
import { DecisionRow, SentRow } from "./decision";
import { EditPanel, type Draft } from "./edit";
import type { Fold } from "../run/folding";
import { Icon } from "../ui/icon";
import { ProblemWords } from "../run/notices";
import { OutputList, OutputNote } from "./outputs";
import { AllowPanel } from "./allow";
import { usePageId } from "../ui/ids";
import { ReasonPanel } from "./reason";
import { Question } from "./question";
import { decidedBy, StatusLine, timedOut } from "./statusLine";
import { UndoRow } from "./undo";
import { Plain } from "../ui/text";

export interface CardProps {
  call: Call;
  /** One of several that wait has the full frame, the filled button and the key hints. */
  current: boolean;
  fold: Fold;
  panel: Panel;
  draft: Draft;
  /** Changes with the draft, which is an object that stays. */
  draftVersion: number;
  pending: PendingDecision | null;
  /** Decisions are off: the connection has been away for too long. */
  off: boolean;
  /** The kernel that this call would run in is no more. */
  gone: boolean;
  /** For a moment after a decision, so that a second click does not hit the next card. */
  guarded: boolean;
  /** Other calls wait as well. */
  several: boolean;
  recorded: boolean;
  retry: Retry;
  undo: Undo;
  /** The policy of the run: a call that is asked for again waits for the person. */
  asksFirst: boolean;
  /** It is the person's turn, though the call waits for nothing. */
  turn: boolean;
  onToggle: (call: Call) => void;
}

/** States that a call ends in, and that fold to a line. */
/** The reason that the log has where a cell was run again: see `stop_for`. */
const RUN_AGAIN = "Its cell was run again.";

const FOLDING = new Set(["success", "error", "invalid", "denied", "cancelled", "superseded", "expired"]);

export const Card = memo(function Card(props: CardProps): JSX.Element {
  const { call, pending, off } = props;
  const yours = props.turn || (needsYou(call) && pending === null && !off);
  const folded = FOLDING.has(call.state) && props.fold === "line";
  const line = folded || call.state === "proposed";
  return (
    <div
      class="ak-card"
      role="group"
      aria-label={`Tool call: ${visible(call.name)}`}
      data-tool-call-id={call.id}
      data-state={call.state}
      data-turn={yours ? "you" : undefined}
      data-current={props.current ? "" : undefined}
      data-line={line ? "" : undefined}
      data-shown={props.fold === "shown" && call.state === "success" ? "" : undefined}
      tabIndex={yours ? 0 : -1}
    >
      <Head {...props} />
      {!folded && <Content {...props} />}
      <StatusLine call={call} folded={folded} retry={props.retry} asksFirst={props.asksFirst} turn={props.turn} />
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

function Head(props: CardProps): JSX.Element {
  const { call } = props;
  const open = props.fold === "open";
  const receives = useContext(ReceivesContext);
  const look = lookOf(props, receives === "between-cells");
  const inner = (
    <>
      <Icon name={look.icon} tone={look.tone} />
      <code class="ak-tool">
        <Plain text={call.name} />
      </code>
      <HeadSummary {...props} />
      <span class="ak-state">
        {props.recorded && call.state === "awaiting_approval" && <span class="ak-tag">Recorded demo</span>}
        <span class="ak-word">{look.word}</span>
        <HeadNote call={call} />
        {FOLDING.has(call.state) && <Icon name={open ? "down" : "right"} tone="ak-chev" />}
        {!props.gone && (call.state === "approved" || call.state === "executing") && call.name !== "ask_user" && (
          <CancelButton call={call} />
        )}
      </span>
    </>
  );
  if (!FOLDING.has(call.state)) return <div class="ak-head">{inner}</div>;
  return (
    <button type="button" class="ak-head" aria-expanded={open} onClick={() => props.onToggle(call)}>
      {inner}
    </button>
  );
}

function lookOf({ call, pending, off }: CardProps, heldBack: boolean): StateLook {
  if (call.state === "executing" && call.name === "ask_user") return ASKING;
  if (call.state === "executing" && call.waitingBehind !== null) return NEXT_IN_LINE;
  const look = CALL_STATES[call.state];
  if (call.state !== "awaiting_approval") return look;
  if (pending?.status === "queued") {
    return { word: `${pending.command.approved ? "Approve" : "Deny"} not sent yet`, icon: "clock", tone: "ak-calm" };
  }
  if (pending !== null && heldBack)
    return { word: `${pending.command.approved ? "Approve" : "Deny"} chosen`, icon: "clock", tone: "ak-calm" };
  return off ? { word: "Waiting, decisions off", icon: "wait", tone: "ak-calm" } : look;
}

function HeadSummary({ call, panel, draft }: CardProps): JSX.Element {
  if (panel === "edit" && call.state === "awaiting_approval") return <span class="ak-sum">{draft.note()}</span>;
  if (call.name === "ask_user" && call.state === "executing") return <span class="ak-sum" />;
  if (call.state === "awaiting_approval" && call.input !== null) {
    const shown = shownCall(call.name, call.input, call.preview);
    if (shown.language === "python")
      return <span class="ak-sum">Python, {plural(lineCount(shown.text), "line")}, in this notebook’s kernel</span>;
    if (shown.language === "shell") return <span class="ak-sum">Shell, {plural(lineCount(shown.text), "line")}</span>;
  }
  if (call.state === "invalid")
    return (
      <span class="ak-sum">
        <Plain text={call.reason ?? call.result ?? ""} />
      </span>
    );
  return (
    <code class="ak-sum">
      <Plain text={summary(call.name, call.input)} />
    </code>
  );
}

function HeadNote({ call }: { call: Call }): JSX.Element | null {
  const actions = useActions();
  const ticking = call.state === "executing" || call.state === "approved";
  useSeconds(ticking && call.name !== "ask_user");
  switch (call.state) {
    case "approved":
    case "executing": {
      const since = call.startedAt ?? call.decidedAt;
      if (since === null || call.name === "ask_user") return null;
      return <span class="ak-muted">{wholeSeconds(actions.now() - Date.parse(since))}</span>;
    }
    case "success":
      // Of a diff that is not shown whole, the lines that are would be too few.
      if (call.preview?.kind === "diff" && !call.preview.left_out)
        return <span class="ak-muted">{changeCount(call.preview.text)}</span>;
      return call.durationMs === null ? null : <span class="ak-muted">{duration(call.durationMs)}</span>;
    case "error":
    case "cancelled":
      return call.durationMs === null || call.startedAt === null ? null : (
        <span class="ak-muted">{duration(call.durationMs)}</span>
      );
    case "invalid":
      return <span class="ak-muted">Model was told</span>;
    case "superseded":
      return (
        <span class="ak-muted">{call.reason === RUN_AGAIN ? "its cell was run again" : "by your new message"}</span>
      );
    case "expired":
      return <span class="ak-muted">nothing ran</span>;
    default:
      return null;
  }
}

function CancelButton({ call }: { call: Call }): JSX.Element {
  const actions = useActions();
  const [asked, setAsked] = useState(false);
  if (asked)
    return (
      <button type="button" class="ak-btn ak-small" aria-disabled="true">
        Cancelling…
      </button>
    );
  const cancel = (): void => {
    setAsked(true);
    actions.send({ type: "tool_cancel", tool_call_id: call.id });
  };
  return (
    <button type="button" class="ak-btn ak-small" onClick={cancel}>
      <span>Cancel</span>
    </button>
  );
}

function Content(props: CardProps): JSX.Element | null {
  const { call } = props;
  switch (call.state) {
    case "awaiting_approval":
      return <Waiting {...props} />;
    case "executing":
      if (call.name === "ask_user" && !props.gone) return <Question call={call} />;
      return <Ran call={call} />;
    case "success":
      return (
        <>
          <Ran call={call} shown={props.fold === "shown"} />
          <UndoRow call={call} undo={props.undo} />
        </>
      );
    case "error":
      return (
        <>
          <Ran call={call} />
          <EndNote call={call} />
        </>
      );
    case "unknown":
      return <Ran call={call} />;
    case "cancelled":
      return call.startedAt === null ? <WholeCall call={call} /> : <Ran call={call} />;
    case "approved":
      return <FoldedCall call={call} />;
    case "proposed":
      return null;
    case "invalid":
    case "denied":
    case "superseded":
    case "expired":
      return <WholeCall call={call} />;
  }
}

function WholeCall({ call }: { call: Call }): JSX.Element | null {
  return call.input === null ? null : <CallBody name={call.name} input={call.input} preview={call.preview} />;
}

function Waiting(props: CardProps): JSX.Element {
  const { call, panel, pending, draft } = props;
  const open = pending === null && !props.off ? panel : "none";
  return (
    <>
      {open === "edit" ? (
        <EditPanel call={call} draft={draft} />
      ) : (
        <CallBody name={call.name} input={call.input ?? ""} preview={call.preview} warnings={call.warnings} />
      )}
      <Warnings call={call} note={open === "edit" ? "The model is told that you changed the call." : ""} />
      {pending !== null ? (
        <SentRow pending={pending} />
      ) : open === "none" || open === "allow" ? (
        <DecisionRow {...props} />
      ) : null}
      {open === "edit" && <EditPanel.Actions call={call} draft={draft} guarded={props.guarded} />}
      {open === "reason" && <ReasonPanel call={call} draft={draft.reason} />}
      {open === "allow" && <AllowPanel call={call} />}
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
            {warning.detail !== "" && (
              <code>
                <Plain text={warning.detail} />
              </code>
            )}
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
  return call.name === "run_python" || call.name === "run_shell";
}

/** `shown`: only what came out, in little room. */
function Ran({ call, shown = false }: { call: Call; shown?: boolean }): JSX.Element {
  const wrote = call.preview?.kind === "diff";
  return (
    <>
      {shown ? null : wrote && call.state === "success" ? (
        <CallBody name={call.name} input={call.input ?? ""} preview={call.preview} warnings={call.warnings} />
      ) : (
        <FoldedCall call={call} />
      )}
      <OutputList owner={call.id} outputs={call.outputs} />
      {call.seenImages > 0 && <OutputNote text={seenWords(call.seenImages, pictureCount(call.outputs))} />}
      <ResultText call={call} wrote={wrote} />
      {call.truncated && <OutputNote text="The model was given the beginning and the end of this output." />}
      {call.outputFile !== null && (
        <div class="ak-out ak-note">
          All of the output is in{" "}
          <code>
            <Plain text={call.outputFile} />
          </code>
        </div>
      )}
    </>
  );
}

/** "Timed out after 30 s.": a call that failed because it took too long. */
function EndNote({ call }: { call: Call }): JSX.Element | null {
  return timedOut(call) ? <OutputNote text={call.reason ?? ""} /> : null;
}

/** What the tool gave back, for tools that show nothing by themselves. */
function ResultText({ call, wrote }: { call: Call; wrote: boolean }): JSX.Element | null {
  const nothingShown = call.outputs.blocks.length === 0 && !(wrote && call.state === "success");
  if (
    !nothingShown ||
    call.result === null ||
    call.result === "" ||
    (call.state !== "success" && call.state !== "error")
  )
    return null;
  return (
    <div class={`ak-out ${call.state === "error" ? "ak-err" : ""}`}>
      <pre dir="ltr">
        <Plain text={cut(call.result)} />
      </pre>
    </div>
  );
}

function cut(text: string): string {
  return text.length > 20_000
    ? `${text.slice(0, 20_000)}\n… ${text.length - 20_000} more characters not shown here.`
    : text;
}

function FoldedCall({ call }: { call: Call }): JSX.Element | null {
  const [open, setOpen] = useState(false);
  const id = usePageId();
  if (call.input === null) return null;
  const shown = shownCall(call.name, call.input, call.preview);
  const title =
    shown.language === "json"
      ? "Arguments"
      : shown.kind === "diff"
        ? "Changes"
        : `Code, ${plural(lineCount(shown.text), "line")}`;
  return (
    <>
      <button type="button" class="ak-fold" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
        <Icon name={open ? "down" : "right"} tone="ak-chev" />
        <span>{title}</span>
        <span class="ak-end">{decidedBy(call)}</span>
      </button>
      <div id={id} class="ak-folded-call" hidden={!open}>
        {open && <CallBody name={call.name} input={call.input} preview={call.preview} />}
      </div>
    </>
  );
}
