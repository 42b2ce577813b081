/** A run that is paused at a budget, or because it repeats itself: what it has spent or repeats, and the way on. */
import type { JSX, TargetedKeyboardEvent } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import type { BudgetLimits, BudgetRaise, PauseView, RunView } from "../protocol";
import { count, money, timeOfDay, wholeSeconds } from "../text/format";
import { Button, usePageId, Plain } from "../ui/parts";
import { ACTIONS } from "../card/looks";
import { SentRow } from "../card/decision";
import { pressByKey } from "../ui/keys";
import type { RunController } from "../store/controller";
import type { RunStore } from "../store/run";
import { Icon } from "../ui/icon";
import { raisedWords } from "../text/words";
import { SHARED } from "../text/words.gen";

type Limit = PauseView["reached"][number];

const LIMITS: Readonly<Record<Limit, Readonly<Record<"title" | "add", string>>>> = {
  tokens: { title: "Tokens", add: "Add tokens" },
  usd: { title: "Cost", add: "Add dollars" },
  tool_calls: { title: "Tool calls", add: "Add tool calls" },
  steps: { title: "Steps", add: "Add steps" },
  seconds: { title: "Time", add: "Add minutes" },
};
const ORDER: readonly Limit[] = ["tokens", "usd", "tool_calls", "steps", "seconds"];
const NOTHING: BudgetLimits = { tokens: null, usd: null, tool_calls: null, steps: null, seconds: null };
/** The most that the runtime takes. */
const MOST = 1e9;

export function BudgetCard({ controller, pause }: { controller: RunController; pause: PauseView }): JSX.Element | null {
  const { store } = controller;
  const run = store.run.value;
  const gone = store.gone.value;
  const raise = store.raise.value;
  const yours = raise === null && !store.off.value && !gone;
  const title = pauseTitle(pause);
  useLayoutEffect(() => {
    if (yours) controller.cameToAsk();
  }, [controller, yours]);
  if (run === null) return null;
  return (
    <div
      class="ak-card"
      role="group"
      aria-label={title}
      data-pause-id={pause.pause_id}
      data-turn={yours ? "you" : undefined}
      data-current={yours ? "" : undefined}
      tabIndex={yours ? 0 : -1}
      onKeyDown={takeKey}
    >
      <div class="ak-head">
        <Icon name={pause.repeated ? "repeat" : "gauge"} tone={yours ? "ak-turn" : "ak-calm"} />
        <b>{title}</b>
        <span class={`ak-sum ak-whole ${pause.repeated || pause.unpriced ? "ak-long" : ""}`}>
          {pause.repeated && (
            <>
              <Plain text={pause.repeated} />.{" "}
            </>
          )}
          {pause.unpriced && `It is not known what this ${pause.of ?? "run"} costs. `}
          {SHARED.pausedBefore} Nothing is lost.
        </span>
        <span class="ak-state">
          <span class="ak-word">{wordOf(store)}</span>
        </span>
      </div>
      {!pause.repeated && <Meters run={run} pause={pause} />}
      {gone ? (
        <div class="ak-actions">
          <span class="ak-note">Nothing more is spent.</span>
        </div>
      ) : raise !== null ? (
        <SentRow choice={SHARED.actions.goOn} sent={raise} />
      ) : (
        <AnswerRow key={pause.pause_id} controller={controller} run={run} pause={pause} />
      )}
    </div>
  );
}

/** While it is paused, the key that lets the run go on is never the notebook's. */
function takeKey(event: TargetedKeyboardEvent<HTMLElement>): void {
  if (!pressByKey(event, event.currentTarget) && event.key === "Enter" && (event.ctrlKey || event.metaKey))
    event.preventDefault();
}

/** The card's title. */
function pauseTitle(pause: PauseView): string {
  if (pause.repeated) return "The agent repeats itself";
  const whose = pause.of === "conversation" ? "Conversation’s budget" : "Budget";
  return pause.unpriced ? `${whose} can't be checked` : `${whose} reached`;
}

function limitsOf(run: RunView, pause: PauseView): BudgetLimits {
  return (pause.of === "conversation" ? run.conversation_budget?.limits : undefined) ?? run.budget;
}

function wordOf({ gone, off }: RunStore): string {
  if (gone.value) return "Stopped";
  return off.value ? "Waiting, decisions off" : SHARED.states.awaiting_approval;
}

function Meters({ run, pause }: { run: RunView; pause: PauseView }): JSX.Element {
  const budget = limitsOf(run, pause);
  return (
    <div class="ak-meters">
      {ORDER.map((name) => {
        const most = budget[name];
        if (most === null) return null;
        const spent = spentOf(name, run, pause);
        const words =
          name === "usd" && pause.unpriced
            ? `Not known, of ${money(most)}`
            : `${name === "tokens" && (run.usage.estimated || earlier(run, pause)?.estimated) ? "about " : ""}${amount(name, spent)} of ${amount(name, most)}`;
        const full = pause.reached.includes(name) && !pause.unpriced;
        return (
          <div class="ak-meter-row" key={name}>
            <span>{LIMITS[name].title}</span>
            <span
              class={full ? "ak-meter ak-full" : "ak-meter"}
              role="meter"
              aria-label={LIMITS[name].title}
              aria-valuemin={0}
              aria-valuemax={most}
              aria-valuenow={Math.min(spent, most)}
              aria-valuetext={words}
            >
              <i style={{ width: `${most === 0 ? 100 : Math.min(100, (100 * spent) / most)}%` }} />
            </span>
            {full ? <b>{words}</b> : <span>{words}</span>}
          </div>
        );
      })}
    </div>
  );
}

interface AnswerProps {
  controller: RunController;
  run: RunView;
  pause: PauseView;
}

/** What lets the run go on: more of what is used up; nothing, where the run repeats itself; or no limit in dollars,
 * where it is not known what the run costs. */
function AnswerRow({ controller, run, pause }: AnswerProps): JSX.Element {
  const id = usePageId();
  const { off } = controller.store;
  const adds = !pause.repeated && !pause.unpriced;
  const [texts, setTexts] = useState(() =>
    Object.fromEntries(pause.reached.map((name) => [name, offered(name, limitsOf(run, pause))])),
  );
  const add = adds ? addition(pause.reached, texts) : NOTHING;
  const action = adds ? ACTIONS.raiseBudget : pause.repeated ? ACTIONS.goOn : ACTIONS.goOnWithout;
  const note = adds || pause.repeated ? "" : `Then ${money(limitsOf(run, pause).usd ?? 0)} is no limit any more. `;
  return (
    <div class="ak-actions">
      {adds &&
        pause.reached.map((name) => (
          <label class="ak-raise" key={name}>
            {LIMITS[name].add}
            <input
              class="ak-field ak-num"
              type="number"
              min="0"
              step={name === "usd" ? "0.01" : "1"}
              data-enter="send"
              aria-label={LIMITS[name].add}
              aria-invalid={parsed(name, texts[name]) === null}
              value={texts[name]}
              onInput={(event) => setTexts({ ...texts, [name]: event.currentTarget.value })}
            />
          </label>
        ))}
      <Button
        {...action}
        look="primary"
        offBecause={off.value || add === null ? id : undefined}
        onPress={() => add !== null && controller.raiseBudget(pause, add, action === ACTIONS.goOnWithout)}
      />
      <span class="ak-note" id={id}>
        {off.value
          ? "Off until the connection is back."
          : add === null
            ? "Write a number above 0."
            : `${note}${SHARED.card.orStop}`}
      </span>
    </div>
  );
}

/** In the run's flow, where the pause was: "Budget raised by ana, 14:03:02: 100,000 tokens." */
export function RaiseLine({ raise, by }: { raise: BudgetRaise; by: string }): JSX.Element {
  const added = ORDER.flatMap((name) => {
    const more = raise.add[name] ?? null;
    if (more === null) return [];
    return [
      name === "seconds" || name === "usd"
        ? amount(name, more)
        : `${amount(name, more)} ${LIMITS[name].title.toLowerCase()}`,
    ];
  });
  return (
    <div class="ak-raised">
      <Icon name="gauge" tone="ak-calm" />
      <span>
        <Plain text={raisedWords(raise, by)} />, {timeOfDay(raise.at)}
        {added.length > 0 && `: ${added.join(", ")}`}.
      </span>
    </div>
  );
}

/** The part of the reached budget that the runs before this one have spent. */
function earlier(run: RunView, pause: PauseView): RunView["usage"] | undefined {
  return pause.of === "conversation" ? run.conversation_budget?.spent : undefined;
}

function spentOf(name: Limit, run: RunView, pause: PauseView): number {
  const before = earlier(run, pause);
  switch (name) {
    case "tokens":
      return run.usage.total_tokens + (before?.total_tokens ?? 0);
    case "usd":
      return (run.usage.cost ?? 0) + (before?.cost ?? 0);
    case "seconds":
      return pause.seconds + (before?.seconds ?? 0);
    case "tool_calls":
    case "steps":
      return run.usage[name] + (before?.[name] ?? 0);
  }
}

function amount(name: Limit, value: number): string {
  if (name === "usd") return money(value);
  return name === "seconds" ? wholeSeconds(value * 1_000).replace(/ 0\s(s|min)$/, "") : count(value);
}

/** Half of what there was, in the unit of its field. */
function offered(name: Limit, budget: BudgetLimits): string {
  const most = budget[name] ?? 0;
  if (name === "usd") return Math.max(0.01, most / 2).toFixed(2);
  return String(Math.max(1, Math.round(most / (name === "seconds" ? 120 : 2))));
}

function parsed(name: Limit, text: string | undefined): number | null {
  const value = Number(text);
  return value > 0 && value <= MOST && (name === "usd" || Number.isInteger(value)) ? value : null;
}

function addition(reached: readonly Limit[], texts: Readonly<Record<string, string>>): BudgetLimits | null {
  const add = { ...NOTHING };
  for (const name of reached) {
    const value = parsed(name, texts[name]);
    if (value === null) return null;
    add[name] = name === "seconds" ? value * 60 : value;
  }
  return add;
}
