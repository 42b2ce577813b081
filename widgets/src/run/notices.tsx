/** What a run says beside its items: bars for its connection, the run ahead, several waiting calls and a delay; notices. */
import type { Signal } from "@preact/signals";
import type { JSX } from "preact";
import { ACTIONS } from "../card/looks";
import { useRun } from "../card/context";
import { ProblemWords } from "../card/statusLine";
import { DECISIONS_OFF_AFTER_MS } from "../channel/channel";
import { type Call, type Problem, type RunState, asksWhatNow, callsInOrder, needsYou, pauseOf } from "../state/model";
import { oneLine, wholeSeconds } from "../text/format";
import { visible } from "../text/invisible";
import { delayWords } from "../text/words";
import { Fold, Bar, Button, OnceButton, useSeconds, Message, Plain } from "../ui/parts";
import { Icon } from "../ui/icon";
import { pressByKey } from "../ui/keys";
import type { RunController } from "../store/controller";

export function Notice({ problem, onRetry }: { problem: Problem; onRetry: (() => void) | null }): JSX.Element {
  const quiet = problem.code === "CONFLICT";
  return (
    <Bar
      role={quiet ? "status" : "alert"}
      icon={quiet ? "skip" : problem.code === "BUDGET_EXCEEDED" ? "gauge" : "cross"}
      tone={quiet ? "ak-calm" : "ak-bad"}
      end={onRetry !== null && <Button name="Try again" small onPress={onRetry} />}
      data-code={problem.code}
    >
      <ProblemWords problem={problem} about={problem.message.startsWith("This run ") ? "run" : "decided"} />
    </Bar>
  );
}

/** A notice about something that was done otherwise than asked. */
export function Note({ text, detail }: { text: string; detail: string }): JSX.Element {
  if (detail !== "") return <SummaryCard text={text} detail={detail} />;
  return (
    <Bar role="status" icon="skip" data-role="note">
      <Message text={visible(text)} />
    </Bar>
  );
}

/** Why a prompt holds its cell, in a page of a Jupyter server. */
export function UnservedNote(): JSX.Element | null {
  if (document.getElementById("jupyter-config-data") === null) return null;
  return (
    <Bar role="status" icon="clock" data-role="unserved">
      <b>A prompt holds its cell here,</b> because its agent works in the kernel: this server’s extension of Agent
      Kernel is off, or not there. <code>agent-kernel doctor</code> says what to do.
    </Bar>
  );
}

/** The summary in place of older messages from here on, to be opened and read. */
function SummaryCard({ text, detail }: { text: string; detail: string }): JSX.Element {
  const title = (
    <>
      <Icon name="summary" tone="ak-calm" />
      <b>{visible(text)}</b>
      <span class="ak-sum ak-whole">The model goes on with this summary. What is shown here stays as it is.</span>
    </>
  );
  return (
    <div class="ak-card ak-summary" role="group" aria-label={visible(text)} data-role="note">
      <Fold card title={title}>
        {() => <Plain text={detail} />}
      </Fold>
    </div>
  );
}

/** Shows nothing for a connection that is open, or has been looked for only a moment. */
export function ConnectionBar({ controller }: { controller: RunController }): JSX.Element | null {
  const { store } = controller;
  const { status, since, why, nextTryAt } = store.connection.value;
  useSeconds(status !== "open");
  const away = Date.now() - since;
  // Before a run's first event the runtime may not know it yet, and refuses.
  if (store.ended.value || status === "open" || (store.run.value === null && away < 5_000)) return null;
  const again = <Button name="Try again" small onPress={() => controller.channel.retryNow()} />;
  if (status === "gone")
    return (
      <Bar role="alert" icon="cross" tone="ak-bad">
        <b>The kernel is gone.</b> Its variables and this run went with it. Nothing can be decided here.
      </Bar>
    );
  if (status === "refused")
    return (
      <Bar role="alert" icon="offline" tone="ak-warn" end={again}>
        <b>This page may not read the conversation any more.</b> The server took the right to, or you are logged out.
        Decisions are off on this page.
      </Bar>
    );
  if (why !== null)
    return (
      <Bar role="alert" icon="offline" tone="ak-warn" end={again}>
        <b>Agent Kernel does not work on this server.</b> <Message text={visible(why)} />
      </Bar>
    );
  if (away < DECISIONS_OFF_AFTER_MS)
    return (
      <Bar role="status" icon="run" tone="ak-calm ak-spin" end={<NextTry at={nextTryAt} />}>
        <b>Reconnecting.</b> You can still decide; your click is sent when the connection is back.
      </Bar>
    );
  return (
    <Bar role="alert" icon="offline" tone="ak-warn" end={again}>
      <b>No connection for {wholeSeconds(away).replace(/ \d+\s+s$/, "")}.</b> Decisions are off on this page. Calls that
      run go on; nothing new starts.
    </Bar>
  );
}

function NextTry({ at }: { at: number | null }): JSX.Element | null {
  const left = at === null ? 0 : Math.ceil((at - Date.now()) / 1_000);
  return left < 2 ? null : <span class="ak-muted ak-num">next try in {wholeSeconds(1_000 * left)}</span>;
}

export function DelayBar({ controller }: { controller: RunController }): JSX.Element | null {
  const { store } = controller;
  const delay = store.delay.value;
  useSeconds(delay !== null);
  if (delay === null) return null;
  const { what, when, waits } = delayWords(delay, controller.now());
  // The words change every second: they are read out once, by the announcer.
  return (
    <Bar
      role="group"
      icon="clock"
      end={
        waits && (
          <>
            <Button name="Try now" small onPress={() => controller.tryNow(delay)} />
            <Button name="Stop" small icon={<Icon name="stop" />} onPress={() => controller.stop()} />
          </>
        )
      }
      aria-label={what}
      data-delay={delay.kind}
    >
      <b>{what}</b>
      <span class="ak-num">, {when}.</span>{" "}
      <span class="ak-muted">
        <Message text={visible(delay.cause)} />
      </span>
    </Bar>
  );
}

const PROMPT_CHARACTERS = 60;

/** The runs before this one; `shown` says whether the first of them is shown below. */
export function RunAheadBar({ shown }: { shown: Signal<boolean> }): JSX.Element | null {
  const run = useRun();
  const ahead = run.store.ahead.value;
  const first = ahead[0];
  if (first === undefined) return null;
  const prompt = first.run?.prompt ?? "";
  const more = ahead.length - 1;
  return (
    <Bar
      role="status"
      icon="clock"
      end={
        <>
          <Button
            name={shown.value ? "Hide" : "Show here"}
            small
            expanded={shown.value}
            onPress={() => (shown.value = !shown.value)}
          />
          <OnceButton
            key={first.runId}
            name="Stop it and go on"
            pressed="Stopping it…"
            onPress={() => run.send({ type: "cancel", run_id: first.runId })}
          />
        </>
      }
      data-role="ahead"
    >
      Behind <i title={visible(prompt)}>{visible(oneLine(prompt, PROMPT_CHARACTERS))}</i>, which {standing(first)}
      {more > 0 && `, and ${more} more`}.
    </Bar>
  );
}

function standing(state: RunState): string {
  const asks = callsInOrder(state).some((call) => needsYou(call) || asksWhatNow(call, state));
  if (asks || pauseOf(state) !== null) return "waits for you";
  return state.run?.status === "queued" ? "is about to begin" : "is running";
}

export function BatchBar({ controller }: { controller: RunController }): JSX.Element {
  const { answerable } = controller.store;
  const calls = answerable.value.map((card) => card.call.value);
  return (
    <div
      class="ak-bar ak-batch"
      role="group"
      aria-label="Waiting calls"
      onKeyDown={(event) => pressByKey(event, event.currentTarget)}
    >
      <Icon name="wait" tone="ak-turn" />
      <span class="ak-grow">
        <b>{calls.length} calls are waiting for you.</b> <span class="ak-muted">{warningsOf(calls)}</span>
      </span>
      <Button {...ACTIONS.approveAll} after={` (${calls.length})`} onPress={() => controller.decideAll(true)} />
      <Button {...ACTIONS.denyAll} onPress={() => controller.decideAll(false)} />
    </div>
  );
}

const NUMBERS = ["No call", "One", "Two", "Three", "Four", "Five", "Six"];

/** "One writes files. Two delete rows." */
function warningsOf(calls: readonly Call[]): string {
  const counts = new Map<string, number>();
  for (const call of calls) {
    for (const title of new Set(call.warnings.map((warning) => warning.title.replace(/:$/, "").toLowerCase()))) {
      counts.set(title, (counts.get(title) ?? 0) + 1);
    }
  }
  return [...counts]
    .map(([title, count]) => `${NUMBERS[count] ?? count} ${count === 1 ? title : pluralVerb(title)}.`)
    .join(" ");
}

function pluralVerb(title: string): string {
  return title.replace(/^(\w+?)s\b/, "$1");
}
