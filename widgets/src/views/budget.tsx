/** A run that is paused at its budget: what it has spent, how much more it may, and what was added before. */
import type { JSX } from "preact";
import { useContext, useState } from "preact/hooks";
import type { BudgetLimits, BudgetRaise, PauseView, RunView } from "../protocol";
import { count, timeOfDay, wholeSeconds } from "../text/format";
import { Button } from "./button";
import { HearingContext, useActions, type Raising } from "./context";
import { HearingNote, useHeldBack } from "./hearing";
import { Icon } from "./icon";
import { usePageId } from "./ids";
import { Plain } from "./text";

type Limit = PauseView["reached"][number];

const LIMITS: Readonly<Record<Limit, { readonly title: string; readonly add: string }>> = {
  tokens: { title: "Tokens", add: "Add tokens" },
  tool_calls: { title: "Tool calls", add: "Add tool calls" },
  steps: { title: "Steps", add: "Add steps" },
  seconds: { title: "Time", add: "Add minutes" },
};
const ORDER: readonly Limit[] = ["tokens", "tool_calls", "steps", "seconds"];
/** The most that the brain takes. */
const MOST = 1e9;

interface Props {
  run: RunView;
  pause: PauseView;
  off: boolean;
  gone: boolean;
  guarded: boolean;
  raising: Raising;
}

export function BudgetCard({ run, pause, ...props }: Props): JSX.Element {
  const hearing = useContext(HearingContext);
  const yours = props.raising === "no" && !props.off && !props.gone;
  return (
    <div
      class="ak-card"
      role="group"
      aria-label="Budget reached"
      data-pause-id={pause.pause_id}
      data-turn={yours ? "you" : undefined}
      data-current={yours ? "" : undefined}
      tabIndex={yours ? 0 : -1}
    >
      <div class="ak-head">
        <Icon name="gauge" tone={yours ? "ak-turn" : "ak-calm"} />
        <b>Budget reached</b>
        <span class="ak-sum ak-whole">The run is paused before its next model call. Nothing is lost.</span>
        <span class="ak-state"><span class="ak-word">{wordOf(props, hearing === "between-cells")}</span></span>
      </div>
      <Meters run={run} pause={pause} />
      {props.gone
        ? <div class="ak-actions"><span class="ak-note">Nothing more is spent.</span></div>
        : props.raising === "no" ? <AddRow key={pause.pause_id} run={run} pause={pause} {...props} /> : <SentRow raising={props.raising} />}
    </div>
  );
}

function wordOf({ gone, off, raising }: Pick<Props, "gone" | "off" | "raising">, heldBack: boolean): string {
  if (gone) return "Stopped";
  if (raising === "sent" && heldBack) return "Continue chosen";
  return off ? "Waiting, decisions off" : "Waiting for you";
}

function Meters({ run, pause }: { run: RunView; pause: PauseView }): JSX.Element {
  return (
    <div class="ak-meters">
      {ORDER.map((name) => {
        const most = run.budget[name];
        if (most === null) return null;
        const spent = spentOf(name, run, pause);
        const words = `${amount(name, spent)} of ${amount(name, most)}`;
        const full = pause.reached.includes(name);
        return (
          <div class="ak-meter-row" key={name}>
            <span>{LIMITS[name].title}</span>
            <span class={full ? "ak-meter ak-full" : "ak-meter"} role="meter" aria-label={LIMITS[name].title} aria-valuemin={0} aria-valuemax={most} aria-valuenow={Math.min(spent, most)} aria-valuetext={words}>
              <i style={{ width: `${most === 0 ? 100 : Math.min(100, (100 * spent) / most)}%` }} />
            </span>
            {full ? <b>{words}</b> : <span>{words}</span>}
          </div>
        );
      })}
    </div>
  );
}

function AddRow({ run, pause, off, guarded }: { run: RunView; pause: PauseView; off: boolean; guarded: boolean }): JSX.Element {
  const actions = useActions();
  const id = usePageId();
  const [texts, setTexts] = useState(() => Object.fromEntries(pause.reached.map((name) => [name, count(offered(name, run.budget))])));
  const add = addition(pause.reached, texts);
  const offBecause = off || add === null ? id : guarded ? "" : undefined;
  const go = (): void => {
    if (add !== null && offBecause === undefined) actions.raiseBudget(pause, add);
  };
  return (
    <div class="ak-actions" data-guarded={guarded ? "" : undefined}>
      {pause.reached.map((name) => (
        <label class="ak-add" key={name}>
          {LIMITS[name].add}
          <input
            class="ak-field ak-num"
            inputMode="numeric"
            data-enter="send"
            aria-label={LIMITS[name].add}
            aria-invalid={parsed(texts[name]) === null}
            value={texts[name]}
            onInput={(event) => setTexts({ ...texts, [name]: event.currentTarget.value })}
          />
        </label>
      ))}
      <Button name="Continue" look="primary" offBecause={offBecause} onPress={go} />
      {!off && <HearingNote />}
      <span class="ak-note" id={id}>{off ? "Off until the connection is back." : add === null ? "Write a number above 0." : "Or stop the run; what is done stays."}</span>
    </div>
  );
}

function SentRow({ raising }: { raising: "queued" | "sent" }): JSX.Element {
  const actions = useActions();
  const heldBack = useHeldBack() && raising === "sent";
  return (
    <div class="ak-actions">
      {heldBack && <Icon name="clock" tone="ak-calm" />}
      <span role={heldBack ? "status" : undefined}>
        You chose <b>Continue</b>.{raising === "queued" && " It is sent when the connection is back."}
        {heldBack && " The kernel takes it when the running cell ends."}
      </span>
      {raising === "queued" && <span class="ak-right"><Button name="Take back" onPress={() => actions.takeBackRaise()} /></span>}
    </div>
  );
}

/** In the run's flow, where the pause was: "Budget raised by ana, 14:03:02: 100,000 tokens." */
export function RaiseLine({ raise, by }: { raise: BudgetRaise; by: string }): JSX.Element {
  const added = ORDER.flatMap((name) => (raise.add[name] === null ? [] : [`${amount(name, raise.add[name])}${name === "seconds" ? "" : ` ${LIMITS[name].title.toLowerCase()}`}`]));
  return (
    <div class="ak-raised">
      <Icon name="gauge" tone="ak-calm" />
      <span>Budget raised by <Plain text={by} />, {timeOfDay(raise.at)}: {added.join(", ")}.</span>
    </div>
  );
}

function spentOf(name: Limit, run: RunView, pause: PauseView): number {
  switch (name) {
    case "tokens":
      return run.usage.total_tokens;
    case "seconds":
      return pause.seconds;
    case "tool_calls":
    case "steps":
      return run.usage[name];
  }
}

function amount(name: Limit, value: number): string {
  return name === "seconds" ? wholeSeconds(value * 1_000).replace(/ 0 (s|min)$/, "") : count(value);
}

/** Half of what there was, in the unit of its field. */
function offered(name: Limit, budget: BudgetLimits): number {
  const half = (budget[name] ?? 0) / (name === "seconds" ? 120 : 2);
  return Math.max(1, Math.round(half));
}

function parsed(text: string | undefined): number | null {
  const digits = (text ?? "").replaceAll(/[\s,.'’_]/g, "");
  const value = /^\d+$/.test(digits) ? Number(digits) : 0;
  return value > 0 && value <= MOST ? value : null;
}

function addition(reached: readonly Limit[], texts: Readonly<Record<string, string>>): BudgetLimits | null {
  const add: BudgetLimits = { tokens: null, tool_calls: null, seconds: null, steps: null };
  for (const name of reached) {
    const value = parsed(texts[name]);
    if (value === null) return null;
    add[name] = name === "seconds" ? value * 60 : value;
  }
  return add;
}
