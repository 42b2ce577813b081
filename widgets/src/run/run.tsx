/** A run: its header, then answers, calls and notices in the model's order. */
import { useSignal, type ReadonlySignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState, useContext } from "preact/hooks";
import { Card } from "../card/card";
import { RunContext, NotebookContext } from "../card/context";
import { CALL_STATES } from "../card/looks";
import { typesetIn } from "../card/notebookRenderers";
import type { Channel } from "../channel/channel";
import { type Call, type RunState, callOf, callsInOrder, delayOf, pauseOf, runEnded } from "../state/model";
import { visible } from "../text/invisible";
import { byWhom, delayWords, pausedWords } from "../text/words";
import { cellBefore } from "../ui/focus";
import { Fold, Guard, Plain } from "../ui/parts";
import { fieldOf } from "../ui/keys";
import { SUPPRESS_SHORTCUTS, passOn, recipientOf } from "../ui/notebook";
import { BudgetCard, RaiseLine } from "./budget";
import { RunController } from "../store/controller";
import { Header } from "./header";
import { BatchBar, ConnectionBar, DelayBar, Note, Notice, RunAheadBar, UnservedNote } from "./notices";
import { memo } from "preact/compat";
import { StreamingMarkdown } from "../text/markdown";
import { addCopyButtons } from "../ui/copying";
import { Icon } from "../ui/icon";

/** Events that come later (ms) than this after the page was opened are new, not the past that is read again. */
const LIVE_AFTER_MS = 1_000;

/** Items of a long run that are put into the page at first, and at most with each frame. */
const FIRST_SLICE = 10;
const LARGEST_SLICE = 50;

interface Props {
  channel: Channel;
  runId: string;
  prompt: string;
  /** Only because no server with the extension serves the kernel, the run is in there. */
  unserved?: boolean;
}

export function Run({ channel, runId, prompt, unserved = false }: Props): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const controller = useMemo(() => new RunController(channel, runId, () => root.current), [channel, runId]);
  const { store } = controller;
  const aheadShown = useSignal(false);
  useEffect(() => store.watch(), [store]);
  // Before it is painted: who sees a pasted cell may run another one at once, and that reports the cut one as deleted.
  useLayoutEffect(() => channel.viewed(runId), [channel, runId]);
  const [first] = store.ahead.value;
  return (
    <RunContext.Provider value={controller}>
      <Guard.Provider value={store.guarded}>
        <div
          class="ak-run"
          ref={root}
          {...{ [SUPPRESS_SHORTCUTS]: "true" }}
          data-run-id={runId}
          data-status={store.status.value}
          onFocusIn={(event) => controller.focused(event)}
          onKeyDown={(event) => handleKey(event, controller, event.currentTarget)}
        >
          <Header controller={controller} prompt={prompt} />
          <ConnectionBar controller={controller} />
          {unserved && !store.ended.value && <UnservedNote />}
          <RunAheadBar shown={aheadShown} />
          <Items controller={controller} />
          <Announcements controller={controller} />
        </div>
      </Guard.Provider>
      {aheadShown.value && first !== undefined && (
        <div class="ak-ahead">
          <Run key={first.runId} channel={channel} runId={first.runId} prompt="" />
        </div>
      )}
    </RunContext.Provider>
  );
}

function Items({ controller }: { controller: RunController }): JSX.Element {
  const { store } = controller;
  const items = store.items.value;
  const texts = store.texts.value;
  const firstWaiting = store.firstWaiting.value;
  const pause = store.pause.value;
  const shown = useSlices(items.length);
  return (
    <>
      {items.slice(0, shown).flatMap((item) => {
        switch (item.kind) {
          case "answer": {
            const text = store.writing.value === item.id ? null : (texts[item.id] ?? "");
            return <Message key={`answer ${item.id}`} text={text} growing={store.text} />;
          }
          case "raise":
            return <RaiseLine key={`raise ${item.id}`} raise={item.raise} by={byWhom(item.by)} />;
          case "note":
            return <Note key={`note ${item.id}`} text={item.text} detail={item.detail} />;
          case "notice": {
            const retry = item.id === store.retryable.value ? () => controller.tryAgain() : null;
            return <Notice key={`notice ${item.id}`} problem={item.problem} onRetry={retry} />;
          }
          case "call": {
            const card = <Card key={`call ${item.id}`} card={store.call(item.id)} />;
            const isFirst = item.id === firstWaiting && store.answerable.value.length > 1;
            return isFirst ? [<BatchBar key="batch" controller={controller} />, card] : card;
          }
        }
      })}
      {pause !== null && <BudgetCard controller={controller} pause={pause} />}
      {store.thinking.value && <Thinking thought={store.thought} />}
      <DelayBar controller={controller} />
    </>
  );
}

/** How many of the items to show: a long run comes into the page in slices. */
function useSlices(total: number): number {
  const [shown, show] = useState(FIRST_SLICE);
  useEffect(() => {
    if (total > 0) show(total <= shown ? Infinity : Math.min(2 * shown, shown + LARGEST_SLICE));
  }, [total, shown]);
  return shown;
}

/** The last announcement. The past is not read out when a page is opened again. */
function Announcements({ controller }: { controller: RunController }): JSX.Element {
  const state = controller.store.state.value;
  const before = useRef(state);
  const said = useRef("");
  const live = useRef(false);
  useEffect(() => {
    const timer = setTimeout(() => (live.current = true), LIVE_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  if (before.current !== state) {
    const news = announcement(before.current, state, controller.now());
    if (live.current && news !== null) said.current = news;
    before.current = state;
  }
  return (
    <div class="ak-sr" role="status" aria-live="polite">
      {said.current}
    </div>
  );
}

/** Keys that no card has taken: for the notebook, for its cell, or for nobody. */
function handleKey(event: KeyboardEvent, controller: RunController, output: Element): void {
  if (!(event.target instanceof Element)) return;
  const recipient = recipientOf(event, fieldOf(event.target) !== "none");
  if (recipient !== "run") return passOn(event, output, recipient);
  // Straight after a decision a second press was meant for it, and runs no cell. Later, Shift+Enter goes on from where the
  // person was, and does not ask the prompt again.
  if (controller.store.guarded.peek()) return passOn(event, output, "nobody");
  passOn(event, output, "run", event.shiftKey && controller.focus.answered ? cellBefore(output) : undefined);
}

const RUN_WORDS = {
  complete: "The agent has answered.",
  cancelled: "The run was stopped.",
  error: "The run failed.",
} as const;

/** `now` is the runtime's present moment in ms. */
export function announcement(before: RunState, after: RunState, now: number): string | null {
  const said = callsInOrder(after).flatMap((call) => callAnnouncement(callOf(before, call.tool_call_id), call));
  const status = after.run?.status;
  if (runEnded(after) && !runEnded(before) && status !== undefined && status in RUN_WORDS) {
    said.push(RUN_WORDS[status as keyof typeof RUN_WORDS]);
  }
  const pause = pauseOf(after);
  if (pause !== null && pauseOf(before) === null)
    said.push(`${pausedWords(pause)}. The run is paused and waits for you.`);
  const delay = delayOf(after);
  if (delay !== null && delay.since !== delayOf(before)?.since) {
    const { what, when } = delayWords(delay, now);
    said.push(`${what}, ${when}.`);
  }
  return said.length === 0 ? null : said.join(" ");
}

function callAnnouncement(before: Call | undefined, call: Call): string[] {
  if (before === call || before?.state === call.state || call.state === "proposed" || call.state === "approved")
    return [];
  const name = visible(call.tool_name);
  if (call.state === "awaiting_approval") return [`${name} is waiting for you.`];
  if (call.state === "executing")
    return [call.tool_name === "ask_user" ? "The agent asks you a question." : `${name} is running.`];
  return [`${name}: ${CALL_STATES[call.state].word}.`];
}

interface MessageProps {
  /** `null` for the message that is being written, which renders by itself as `growing` does. */
  text: string | null;
  growing: ReadonlySignal<string>;
}

/** One message of the model. The text is put in by hand, so that finished blocks are never touched again. */
const Message = memo(function Message({ text, growing }: MessageProps): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const notebook = useContext(NotebookContext);
  const stream = useRef<StreamingMarkdown | null>(null);
  const streaming = text === null;
  const shown = text ?? growing.value;
  useLayoutEffect(() => {
    if (root.current === null) return;
    stream.current ??= new StreamingMarkdown(root.current, (block) => {
      addCopyButtons(block);
      typesetIn(block, notebook);
    });
    stream.current.show(shown, !streaming);
  }, [shown, streaming, notebook]);
  return <div class={`ak-answer ${streaming ? "ak-streaming" : ""}`} data-role="answer" ref={root} />;
});

function Thinking({ thought }: { thought: ReadonlySignal<string> }): JSX.Element {
  const title = (
    <>
      <Icon name="run" tone="ak-calm ak-spin" />
      <span class="ak-muted">Thinking</span>
    </>
  );
  return (
    <div class="ak-card ak-thinking">
      <Fold card title={title}>
        {() => (
          <span class="ak-muted">
            <Plain text={thought.value} />
          </span>
        )}
      </Fold>
    </div>
  );
}
