/** A run: its header, then answers, calls and notices in the model's order. */
import { Fragment, type JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { announcement } from "./announcer";
import { cardCommand, fieldOf } from "./keyboard";
import type { Channel } from "../channel/channel";
import { passOn, recipientOf, SUPPRESS_SHORTCUTS } from "../ui/notebook";
import { callOf, callsInOrder, needsYou, pauseOf, runEnded, waitingCalls, type Call, type RunState } from "../state";
import { byWhom } from "../text/words";
import { AheadBar, AheadRun, aheadOf } from "./ahead";
import { Message } from "./answer";
import { BatchBar } from "./batch";
import { BudgetCard, RaiseLine } from "./budget";
import { Card } from "../card/card";
import { ActionsContext, ReceivesContext, useSeconds } from "./context";
import { foldOf } from "./folding";
import { Header } from "./header";
import { InterruptNote } from "./kernelBusy";
import { ConnectionBar, Note, Notice } from "./notices";
import { RunController } from "./controller";
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
  const controller = useMemo(() => new RunController(channel, runId, () => root.current), [channel, runId]);
  useEffect(() => controller.watch(() => render(undefined)), [controller]);
  useEffect(() => channel.viewed(runId), [channel, runId]);
  useLayoutEffect(() => controller.followUp());
  const state = channel.state(runId);
  const live = useAnnouncer(state, controller.live);
  const ended = runEnded(state);
  const ahead = aheadOf(channel, state);
  const [aheadShown, showAhead] = useState(false);
  // After a minute without a connection decisions go off, though nothing arrives that would say so.
  useSeconds(!ended && channel.connection.status !== "open");
  return (
    <ActionsContext.Provider value={controller}>
      <ReceivesContext.Provider value={controller.receives}>
        <div
          class="ak-run"
          ref={root}
          {...{ [SUPPRESS_SHORTCUTS]: "true" }}
          data-run-id={runId}
          data-status={state.run?.status ?? "starting"}
          onFocusIn={(event) => controller.focused(event.target)}
          onKeyDown={(event) => handleKey(event, controller, event.currentTarget)}
        >
          <Header
            state={state}
            prompt={prompt}
            connection={channel.connection.status}
            stopping={controller.stopping}
            waiting={controller.waitingFor(state)}
            onStop={() => controller.stop()}
          />
          {!ended && (
            <ConnectionBar
              connection={channel.connection}
              known={state.run !== null}
              onRetry={() => channel.retryNow()}
            />
          )}
          {controller.interrupting && !ended && (controller.stopping || isBusy(state)) && <InterruptNote />}
          <AheadBar
            ahead={ahead}
            shown={aheadShown}
            onShow={() => showAhead(!aheadShown)}
            onStop={(id) => channel.send({ type: "cancel", run_id: id })}
          />
          <Items state={state} controller={controller} />
          <div class="ak-sr" role="status" aria-live="polite">
            {live}
          </div>
        </div>
      </ReceivesContext.Provider>
      {aheadShown && ahead[0] !== undefined && (
        <AheadRun runId={ahead[0].runId} run={(id) => <Run key={id} channel={channel} runId={id} prompt="" />} />
      )}
    </ActionsContext.Provider>
  );
}

function Items({ state, controller }: { state: RunState; controller: RunController }): JSX.Element {
  const waiting = waitingCalls(state);
  const askable = controller.askable(waiting);
  const current = controller.currentCall(state);
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
            return (
              <Notice
                key={item.id}
                problem={item.problem}
                onRetry={item.id === failure && controller.mayTryAgain(state) ? () => controller.tryAgain() : null}
              />
            );
          case "call": {
            const call = callOf(state, item.id);
            if (call === undefined) return null;
            return (
              <Fragment key={`call ${item.id}`}>
                {item.id === firstWaiting && askable.length > 1 && (
                  <BatchBar
                    calls={askable}
                    guarded={controller.guarded}
                    onAll={(approved) => controller.decideAll(askable, approved)}
                  />
                )}
                <CallCard
                  call={call}
                  state={state}
                  controller={controller}
                  current={call.id === current}
                  several={waiting.length > 1}
                />
              </Fragment>
            );
          }
        }
      })}
      {pause !== null && state.run !== null && (
        <BudgetCard
          run={state.run}
          pause={pause}
          off={controller.off}
          gone={controller.gone}
          guarded={controller.guarded}
          reply={controller.budgetReplyOf(state, pause)}
        />
      )}
      {state.thinking !== null && !runEnded(state) && <Thinking />}
    </>
  );
}

function CallCard({
  call,
  state,
  controller,
  current,
  several,
}: {
  call: Call;
  state: RunState;
  controller: RunController;
  current: boolean;
  several: boolean;
}): JSX.Element {
  const asks = call.state === "awaiting_approval";
  return (
    <Card
      call={call}
      current={current}
      fold={foldOf(call, state, controller.openedByHand(call.id))}
      panel={asks ? controller.panelOf(call.id) : "none"}
      draft={controller.draftOf(call.id)}
      draftVersion={controller.draftOf(call.id).edits}
      pending={asks ? controller.pendingOf(call) : null}
      off={needsYou(call) && controller.off}
      gone={controller.gone}
      guarded={asks && controller.guarded}
      several={several}
      retry={controller.retryOf(call, state)}
      undo={controller.undoOf(call, state)}
      asksFirst={state.run?.policy.mode === "ask"}
      turn={controller.asksWhatNow(call, state)}
      recorded={call.recorded || state.run?.recorded === true}
      onToggle={controller.toggle}
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

function handleKey(event: KeyboardEvent, controller: RunController, output: Element): void {
  if (!(event.target instanceof Element)) return;
  const field = fieldOf(event.target);
  const id = event.target.closest("[data-tool-call-id]")?.getAttribute("data-tool-call-id") ?? "";
  // A widget's own keys are no decisions.
  const drawn = event.target.closest(".ak-drawn") !== null;
  const command = drawn ? null : cardCommand(event, { panel: controller.panelOf(id), field });
  const taken = command !== null && new Shortcuts(controller).obey(command, event.target);
  if (taken) event.preventDefault();
  const recipient = recipientOf(event, field !== "none");
  // Straight after a decision a second press was meant for it, and runs no cell.
  passOn(event, output, recipient === "run" && controller.guarded ? "nobody" : recipient);
}
