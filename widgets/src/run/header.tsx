/** The run's header: what was asked, how it stands, which policy is in force, what it costs. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { RunView } from "../protocol";
import { byTheService, cut, limit, money, spent, tokens, wholeSeconds } from "../text/format";
import { approvedByRecordingWords, filled, modelWords, nameOf, policyWords, recordedWords } from "../text/words";
import { SHARED } from "../text/words.gen";
import { Button, PressedButton, useSeconds, Plain } from "../ui/parts";
import { beginConversation } from "../ui/events";
import { Icon, type IconName } from "../ui/icon";
import type { RunController } from "../store/controller";
import { Instructions, Rules, followed } from "./rules";
import type { RunStore } from "../store/run";

/** Characters of a prompt: those that one line shows, the number from which on the whole can be opened, and what is shown then. */
const PROMPT_LINE = 400;
const LONG_PROMPT = 120;
const PROMPT_SHOWN = 20_000;

export function Header({ controller, prompt }: { controller: RunController; prompt: string }): JSX.Element {
  const [rules, showRules] = useState(false);
  const [whole, showWhole] = useState(false);
  const { store } = controller;
  const run = store.run.value;
  const gone = store.gone.value;
  const goesOn = run?.status === "running" && !gone;
  const status = statusOf(store);
  const text = run?.prompt ?? prompt;
  const isLong = text.length > LONG_PROMPT || text.trim().includes("\n");
  return (
    <div class="ak-header" role="group" aria-label="Agent run">
      <div class="ak-header-top">
        <span class="ak-prompt" title={isLong ? undefined : text}>
          {text.slice(0, PROMPT_LINE).trim().replaceAll(/\s+/g, " ")}
        </span>
        {isLong && (
          <Button
            name="Whole prompt"
            small
            look="quiet"
            expanded={whole}
            icon={<Icon name={whole ? "down" : "right"} tone="ak-chev" />}
            onPress={() => showWhole(!whole)}
          />
        )}
        {!store.ended.value && run !== null && !gone && <StopButton controller={controller} />}
      </div>
      {isLong && whole && (
        <pre class="ak-prompt-whole" dir="auto" data-role="prompt" tabIndex={0}>
          <Plain text={cut(text, PROMPT_SHOWN)} />
        </pre>
      )}
      <div class="ak-meta">
        {store.approvedByRecording.value > 0 && (
          <span class="ak-tag">{approvedByRecordingWords(store.approvedByRecording.value)}</span>
        )}
        <span class="ak-status">
          <Icon name={status.icon} tone={status.tone} />
          <span>
            {status.word}
            <Since at={status.since} now={() => controller.now()} />
          </span>
        </span>
        {run !== null && (
          <>
            <Said text={modelWords(run)} />
            <Continues run={run} gone={gone} />
            <Said text={run.mentions?.length ? filled(SHARED.mentions, { names: run.mentions.join(", ") }) : ""} />
            <Said text={followed(run)} />
            <Said
              text={run.recorded ? filled(SHARED.recorded.noModel, { what: recordedWords(run) }) : ""}
              class="ak-tag"
            />
            <button
              type="button"
              class="ak-badge"
              aria-label={`Policy: ${policyWords(run.policy)}`}
              aria-expanded={rules}
              onClick={() => showRules(!rules)}
            >
              <Icon
                name={run.policy.mode === "allow" ? "warn" : "shield"}
                tone={run.policy.mode === "allow" ? "ak-warn" : ""}
              />
              <span>{policyWords(run.policy)}</span>
            </button>
            <Said text={run.policy.limited_by ? `limited by ${run.policy.limited_by}` : ""} class="ak-limits" />
            {/* The bar of a delay has a clock of its own. */}
            {store.delay.value === null && <Elapsed run={run} now={() => controller.now()} />}
            <Spent run={run} />
          </>
        )}
      </div>
      {rules && run !== null && (
        <>
          <Rules run={run} open={goesOn} waiting={store.waitingCount.value} />
          <Instructions files={run.instructions ?? []} open={goesOn} />
        </>
      )}
    </div>
  );
}

/** A few words, where there are any. */
function Said({ text, ...attributes }: { text: string; class?: string }): JSX.Element | null {
  return text === "" ? null : (
    <span {...attributes}>
      <Plain text={text} />
    </span>
  );
}

function StopButton({ controller }: { controller: RunController }): JSX.Element {
  if (controller.store.stopping.value) return <PressedButton name="Stopping…" />;
  return <Button name="Stop" small icon={<Icon name="stop" />} onPress={() => controller.stop()} />;
}

function Elapsed({ run, now }: { run: RunView; now: () => number }): JSX.Element {
  useSeconds(run.ended_at === null);
  const end = run.ended_at === null ? now() : Date.parse(run.ended_at);
  return <span class="ak-num">{wholeSeconds(end - Date.parse(run.started_at))}</span>;
}

/** How long what the status says has gone on. */
function Since({ at, now }: { at: string | null | undefined; now: () => number }): JSX.Element | null {
  useSeconds(Boolean(at));
  return at ? <span class="ak-num">, {wholeSeconds(now() - Date.parse(at))}</span> : null;
}

interface Status {
  readonly word: string;
  readonly since?: string | null;
  readonly icon: IconName;
  readonly tone: string;
}

function statusOf(store: RunStore): Status {
  const run = store.run.value;
  const calm = { icon: "run", tone: "ak-calm ak-spin" } as const;
  switch (run?.status) {
    case "complete":
      return { word: "Complete", icon: "check", tone: "ak-ok" };
    case "cancelled":
      return { word: "Stopped", icon: "cancel", tone: "ak-calm" };
    case "error":
      return { word: "Failed", icon: "cross", tone: "ak-bad" };
    default:
      if (store.gone.value) return { word: "Kernel gone", icon: "cross", tone: "ak-bad" };
      if (store.connection.value.status === "lost" && run !== null) return { word: "Reconnecting", ...calm };
      if (store.stopping.value) return { word: "Stopping", ...calm };
      if (store.waitsForYou.value) return { word: SHARED.states.awaiting_approval, icon: "wait", tone: "ak-turn" };
      if (store.delay.value !== null)
        return { word: SHARED.delays[store.delay.value.kind], icon: "clock", tone: "ak-calm" };
      if (run?.status === "queued") return { word: "Queued", icon: "clock", tone: "ak-calm" };
      return { word: run === null ? "Starting" : "Running", ...calm, ...doing(store) };
  }
}

/** What the kernel does for the run, or does first. */
function doing(store: RunStore): { word: string; since: string | null } | null {
  const calls = store.calls.value.map((card) => card.call.value).filter((call) => call.state === "executing");
  const [first] = calls;
  if (first === undefined) return null;
  const names = [...new Set(calls.map((call) => nameOf(call.tool_name)))].join(", ");
  const cell = first.waiting_behind;
  const word = cell === null ? `Running: ${names}` : `Waiting for your cell [${cell}]`;
  return { word, since: first.started_at };
}

/** `1.2k in · 340 out · $0.004`, and how much of its budget that is. */
function Spent({ run }: { run: RunView }): JSX.Element | null {
  const { usage, budget } = run;
  const parts = spent(run);
  if (typeof budget.usd === "number" && !run.recorded) {
    const isKnown = typeof usage.cost === "number";
    if (isKnown) parts.pop();
    const soFar = isKnown
      ? money(usage.cost ?? 0, usage.cost_is_partial)
      : usage.cost_is_partial || run.paused?.unpriced
        ? "cost not known,"
        : money(0);
    parts.push(`${soFar} of ${money(budget.usd)}${byTheService(usage)}`);
  }
  if (budget.tokens !== null && !run.recorded)
    parts.push(`${usage.estimated ? "about " : ""}${tokens(usage.total_tokens)} of ${limit(budget.tokens)} tokens`);
  return parts.length === 0 ? null : <span class="ak-num ak-spent">{parts.join(" · ")}</span>;
}

const CONTINUES =
  "The model is told what was said before. %agent new, or --new on the prompt’s own line, begins a new conversation.";
const ANEW = "Start this prompt again in a new conversation";

export function Continues({ run, gone }: { run: RunView; gone: boolean }): JSX.Element | null {
  const [failed, fail] = useState(false);
  const cell = run.cell_id;
  if (typeof run.continues !== "number") return null;
  return (
    <>
      <span class="ak-continues" title={CONTINUES}>
        {`continues from [${run.continues}]`}
      </span>
      {!gone && typeof cell === "string" && beginConversation(document, null) && (
        <button
          type="button"
          class="ak-btn ak-small"
          title={ANEW}
          onClick={(event) => fail(!beginConversation(event.currentTarget, cell))}
        >
          New conversation
        </button>
      )}
      {failed && (
        <span class="ak-note" role="alert">
          Its cell can’t be run from here now. Put --new on the prompt’s own line, and run it again.
        </span>
      )}
    </>
  );
}
