/** A run: its header, then answers, calls and notices in the model's order. */
import { Fragment, type JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { announcement } from "../announcer";
import { cardCommand, fieldOf } from "../keyboard";
import type { Channel } from "../link/channel";
import { passOn, recipientOf, SUPPRESS_SHORTCUTS } from "../notebook";
import { callOf, callsInOrder, needsYou, pauseOf, runEnded, waitingCalls, type Call, type RunState } from "../state";
import { byWhom } from "../text/words";
import { AheadBar, AheadRun, aheadOf } from "./ahead";
import { Message } from "./answer";
import { BatchBar } from "./batch";
import { BudgetCard, RaiseLine } from "./budget";
import { Card } from "./card";
import { ActionsContext, HearingContext, useSeconds } from "./context";
import { foldOf } from "./folding";
import { Header } from "./header";
import { InterruptNote } from "./hearing";
import { ConnectionBar, Note, Notice } from "./notices";
import { RunDesk } from "./desk";
import { Shortcuts } from "./shortcuts";
import { Thinking } from "./thinking";

interface Props {
  channel: Channel;
  runId: string;
  prompt: string;
}

export function Run({ channel, runId, prompt }: Props): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const [, render] = useReducer((n: number) => n + 1, 0);
  const desk = useMemo(() => new RunDesk(channel, runId, () => root.current), [channel, runId]);
  useEffect(() => desk.watch(() => render(undefined)), [desk]);
  useEffect(() => channel.viewed(runId), [channel, runId]);
  useLayoutEffect(() => desk.followUp());
  const state = channel.state(runId);
  const live = useAnnouncer(state, desk.live);
  const ended = runEnded(state);
  const ahead = aheadOf(channel, state);
  const [aheadShown, showAhead] = useState(false);
  // After a minute without a connection decisions go off, though nothing arrives that would say so.
  useSeconds(!ended && channel.connection.status !== "open");
  return (
    <ActionsContext.Provider value={desk}>
      <HearingContext.Provider value={desk.hearing}>
        <div
          class="ak-run"
          ref={root}
          {...{ [SUPPRESS_SHORTCUTS]: "true" }}
          data-run-id={runId}
          data-status={state.run?.status ?? "starting"}
          onFocusIn={(event) => desk.focused(event.target)}
          onKeyDown={(event) => handleKey(event, desk, event.currentTarget)}
        >
          <Header state={state} prompt={prompt} connection={channel.connection.status} stopping={desk.stopping} waiting={desk.waitingFor(state)} onStop={() => desk.stop()} />
          {!ended && <ConnectionBar connection={channel.connection} known={state.run !== null} onRetry={() => channel.retryNow()} />}
          {desk.interrupting && !ended && (desk.stopping || isBusy(state)) && <InterruptNote />}
          <AheadBar ahead={ahead} shown={aheadShown} onShow={() => showAhead(!aheadShown)} onStop={(id) => channel.send({ type: "cancel", run_id: id })} />
          <Items state={state} desk={desk} />
          <div class="ak-sr" role="status" aria-live="polite">{live}</div>
        </div>
      </HearingContext.Provider>
      {aheadShown && ahead[0] !== undefined && (
        <AheadRun runId={ahead[0].runId} run={(id) => <Run key={id} channel={channel} runId={id} prompt="" />} />
      )}
    </ActionsContext.Provider>
  );
}

function Items({ state, desk }: { state: RunState; desk: RunDesk }): JSX.Element {
  const waiting = waitingCalls(state);
  const askable = desk.askable(waiting);
  const current = desk.currentCall(state);
  const firstWaiting = waiting[0]?.id;
  const pause = pauseOf(state);
  const failure = state.items.findLast((item) => item.kind === "notice" && item.problem.code === "LLM_ERROR")?.id;
  return (
    <>
      {state.items.map((item) => {
        switch (item.kind) {
          case "answer":
            return <Message key={item.id} text={state.tail?.id === item.id ? null : (state.texts[item.id] ?? "")} />;
          case "raise":
            return <RaiseLine key={item.id} raise={item.raise} by={byWhom(item.by)} />;
          case "note":
            return <Note key={item.id} text={item.text} detail={item.detail} />;
          case "notice":
            return <Notice key={item.id} problem={item.problem} onRetry={item.id === failure && desk.mayTryAgain(state) ? () => desk.tryAgain() : null} />;
          case "call": {
            const call = callOf(state, item.id);
            if (call === undefined) return null;
            return (
              <Fragment key={`call ${item.id}`}>
                {item.id === firstWaiting && askable.length > 1 && (
                  <BatchBar calls={askable} guarded={desk.guarded} onAll={(approved) => desk.decideAll(askable, approved)} />
                )}
                <CallCard call={call} state={state} desk={desk} current={call.id === current} several={waiting.length > 1} />
              </Fragment>
            );
          }
        }
      })}
      {pause !== null && state.run !== null && (
        <BudgetCard run={state.run} pause={pause} off={desk.off} gone={desk.gone} guarded={desk.guarded} raising={desk.raisingOf(state, pause)} />
      )}
      {state.thinking !== null && !runEnded(state) && <Thinking />}
    </>
  );
}

function CallCard({ call, state, desk, current, several }: { call: Call; state: RunState; desk: RunDesk; current: boolean; several: boolean }): JSX.Element {
  const asks = call.state === "awaiting_approval";
  return (
    <Card
      call={call}
      current={current}
      fold={foldOf(call, state, desk.openedByHand(call.id))}
      panel={asks ? desk.panelOf(call.id) : "none"}
      draft={desk.draftOf(call.id)}
      draftVersion={desk.draftOf(call.id).edits}
      pending={asks ? desk.pendingOf(call) : null}
      off={needsYou(call) && desk.off}
      gone={desk.gone}
      guarded={asks && desk.guarded}
      several={several}
      retry={desk.retryOf(call, state)}
      undo={desk.undoOf(call, state)}
      asksFirst={state.run?.policy.mode === "ask"}
      turn={desk.asksWhatNow(call, state)}
      recorded={call.recorded || state.run?.recorded === true}
      onToggle={desk.toggle}
    />
  );
}

function isBusy(state: RunState): boolean {
  return callsInOrder(state).some((call) => call.state === "executing");
}

/** What was said last. The past is not read out when a page is opened again. */
function useAnnouncer(state: RunState, live: boolean): string {
  const before = useRef(state);
  const said = useRef("");
  if (before.current !== state) {
    const news = announcement(before.current, state);
    if (live && news !== null) said.current = news;
    before.current = state;
  }
  return said.current;
}

function handleKey(event: KeyboardEvent, desk: RunDesk, output: Element): void {
  if (!(event.target instanceof Element)) return;
  const field = fieldOf(event.target);
  const id = event.target.closest("[data-tool-call-id]")?.getAttribute("data-tool-call-id") ?? "";
  // A widget's own keys are no decisions.
  const drawn = event.target.closest(".ak-drawn") !== null;
  const command = drawn ? null : cardCommand(event, { panel: desk.panelOf(id), field });
  const taken = command !== null && new Shortcuts(desk).obey(command, event.target);
  if (taken) event.preventDefault();
  const recipient = recipientOf(event, field !== "none");
  // Straight after a decision a second press was meant for it, and runs no cell.
  passOn(event, output, recipient === "run" && desk.guarded ? "nobody" : recipient);
}
