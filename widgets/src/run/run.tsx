/** A run: its header, then answers, calls and notices in the model's order. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Card } from "../card/card";
import { RunContext } from "../card/context";
import { InterruptNote } from "../card/kernelBusy";
import type { Channel } from "../channel/channel";
import { byWhom } from "../text/words";
import { fieldOf } from "../ui/keyboard";
import { KeyScopeContext } from "../ui/keys";
import { passOn, recipientOf, SUPPRESS_SHORTCUTS } from "../ui/notebook";
import { AheadBar, AheadRun } from "./ahead";
import { announcement } from "./announcer";
import { Message } from "./answer";
import { BatchBar } from "./batch";
import { BudgetCard, RaiseLine } from "./budget";
import { RunController } from "./controller";
import { Header } from "./header";
import { ConnectionBar, Note, Notice } from "./notices";
import type { RunStore } from "./store";
import { Thinking } from "./thinking";

/** Events that come later (ms) than this after the page was opened are new, not the past that is read again. */
const LIVE_AFTER_MS = 1_000;

/** Items of a long run that are put into the page at a time; a slice and its paint fit in two frames. */
const FIRST_SLICE = 10;
const LARGEST_SLICE = 200;
const SLICE_MS = 28;

interface Props {
  channel: Channel;
  runId: string;
  prompt: string;
}

export function Run({ channel, runId, prompt }: Props): JSX.Element {
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
      <KeyScopeContext.Provider value={controller.keys}>
        <div
          class="ak-run"
          ref={root}
          {...{ [SUPPRESS_SHORTCUTS]: "true" }}
          data-run-id={runId}
          data-status={store.status.value}
          onFocusIn={(event) => controller.focused(event.target)}
          onKeyDown={(event) => handleKey(event, controller, event.currentTarget)}
        >
          <Header controller={controller} prompt={prompt} />
          <ConnectionBar controller={controller} />
          <Interrupting store={store} />
          <AheadBar
            ahead={store.ahead.value}
            shown={aheadShown.value}
            onShow={() => (aheadShown.value = !aheadShown.value)}
            onStop={(id) => controller.stopAhead(id)}
          />
          <Items controller={controller} />
          <Announcements store={store} />
        </div>
      </KeyScopeContext.Provider>
      {aheadShown.value && first !== undefined && (
        <AheadRun runId={first.runId} run={(id) => <Run key={id} channel={channel} runId={id} prompt="" />} />
      )}
    </RunContext.Provider>
  );
}

function Items({ controller }: { controller: RunController }): JSX.Element {
  const { store } = controller;
  const texts = store.texts.value;
  const firstWaiting = store.firstWaiting.value;
  const pause = store.pause.value;
  const items = store.items.value;
  const shown = useSlices(items.length);
  return (
    <>
      {items.slice(0, shown).flatMap((item, index) => {
        switch (item.kind) {
          case "answer": {
            const text = store.writing.value === item.id ? null : (texts[item.id] ?? "");
            return <Message key={item.id} text={text} growing={store.text} />;
          }
          case "raise":
            return <RaiseLine key={item.id} raise={item.raise} by={byWhom(item.by)} />;
          case "note":
            return <Note key={item.id} text={item.text} detail={item.detail} />;
          case "notice": {
            const retry = item.id === store.retryable.value ? () => controller.tryAgain() : null;
            return <Notice key={item.id} problem={item.problem} onRetry={retry} />;
          }
          case "call": {
            const last = items[index - 1];
            const before = last?.kind === "call" ? store.call(last.id) : undefined;
            const card = <Card key={`call ${item.id}`} card={store.call(item.id)} before={before} />;
            const isFirst = item.id === firstWaiting && store.answerable.value.length > 1;
            return isFirst ? [<BatchBar key="batch" controller={controller} />, card] : card;
          }
        }
      })}
      {pause !== null && <BudgetCard controller={controller} pause={pause} />}
      {store.thinking.value && <Thinking thought={store.thought} />}
    </>
  );
}

/** How many of the items to show: a long run comes into the page in slices, each as long as a frame has time for. */
function useSlices(total: number): number {
  const [shown, show] = useState(FIRST_SLICE);
  const slice = useRef({ size: FIRST_SLICE, began: 0, made: 0, frame: 0 });
  slice.current.began = performance.now();
  // The wait for the frame that paints it is no part of what a slice takes.
  useLayoutEffect(() => {
    const { current } = slice;
    current.made = performance.now() - current.began;
    current.frame = 0;
    const frame = requestAnimationFrame(() => void (current.frame = performance.now()));
    return () => cancelAnimationFrame(frame);
  }, [total, shown]);
  useEffect(() => {
    const { size, made, frame } = slice.current;
    if (total <= shown) {
      if (total > 0) show(Infinity);
      return;
    }
    const painted = frame === 0 ? 0 : performance.now() - frame; // a hidden page has no frames
    const fitting = (size * SLICE_MS) / Math.max(1, made + painted);
    // The first ones say little of those that follow: what they begin with is the same for any size.
    slice.current.size = Math.min(LARGEST_SLICE, 2 * size, Math.max(FIRST_SLICE, Math.round(fitting)));
    show(shown + slice.current.size);
  }, [total, shown]);
  return shown;
}

function Interrupting({ store }: { store: RunStore }): JSX.Element | null {
  const shown = store.interrupting.value && !store.ended.value && (store.stopping.value || store.busy.value);
  return shown ? <InterruptNote /> : null;
}

/** The last announcement. The past is not read out when a page is opened again. */
function Announcements({ store }: { store: RunStore }): JSX.Element {
  const state = store.state.value;
  const before = useRef(state);
  const said = useRef("");
  const live = useRef(false);
  useEffect(() => {
    const timer = setTimeout(() => (live.current = true), LIVE_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  if (before.current !== state) {
    const news = announcement(before.current, state);
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
  // Straight after a decision a second press was meant for it, and runs no cell.
  passOn(event, output, recipient === "run" && controller.store.guarded.peek() ? "nobody" : recipient);
}
