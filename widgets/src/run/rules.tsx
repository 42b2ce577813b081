/** The panel of the policy badge: the mode in words, and every rule in force, with who made it. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { scopeWords } from "../card/allow";
import { useRun } from "../card/context";
import type { PolicyMode, RunView } from "../protocol";
import { leftOut } from "../text/format";
import { ruleText } from "../text/words";
import { Quoted, Button, OnceButton, PressedButton, Choices, Plain } from "../ui/parts";

type Rule = RunView["policy"]["rules"][number];

const MEANING: Readonly<Record<PolicyMode, string>> = {
  ask: "A call that may change something waits for you, unless a rule allows it. Rules that deny or ask win.",
  edit: "Files in the notebook’s folder are written without asking. Code, shell commands, notebooks and hidden files wait for you. Rules that deny or ask win.",
  plan: "Tools that only read may run. Every other call is denied.",
  allow: "Calls run without asking, unless a rule denies or asks.",
  deny: "Every call is denied.",
};

/** From the most permissive on. */
const NAMES: Readonly<Record<PolicyMode, string>> = {
  allow: "Allow",
  edit: "Edit",
  ask: "Ask",
  plan: "Plan",
  deny: "Deny",
};
const MODES = Object.keys(NAMES) as PolicyMode[];

interface Props {
  run: Pick<RunView, "policy" | "client">;
  /** Whether the run goes on, so that a rule can be taken back and the policy be switched here. */
  open: boolean;
  /** How many calls wait for a decision. */
  waiting: number;
}

export function Rules({ run: { policy, client }, open, waiting }: Props): JSX.Element {
  const run = useRun();
  const sendAway = (): void => run.send({ type: "send_away" });
  return (
    <div class="ak-rules" role="group" aria-label="Policy in force">
      {client && (
        <p>
          <Plain text={`${client} asks from outside. Nobody has verified this name.`} />{" "}
          {open && <OnceButton name="Send away" pressed="Sending away…" onPress={sendAway} />}
        </p>
      )}
      {open ? <Switch key={policy.mode} policy={policy} waiting={waiting} /> : <p>{MEANING[policy.mode]}</p>}
      {policy.rules.length > 0 && (
        <ul>
          {policy.rules.map((rule, index) => (
            <RuleLine key={rule.rule_id ?? `${rule.origin} ${index}`} rule={rule} removable={open} />
          ))}
        </ul>
      )}
      {policy.rules.length === 0 && policy.mode === "ask" && <p>No rule is in force.</p>}
      {policy.limited_by && (
        <p data-role="limits">
          <Plain text={`Limited by ${policy.limited_by}.`} /> A file can only tighten.
        </p>
      )}
      {(policy.notes ?? []).map((note) => (
        <p key={note} data-role="policy-note">
          <Plain text={note} />
        </p>
      ))}
    </div>
  );
}

/** The modes that the site permits, and what a switch does to the calls that wait. */
function Switch({ policy, waiting }: { policy: RunView["policy"]; waiting: number }): JSX.Element {
  const run = useRun();
  const [chosen, choose] = useState(policy.mode);
  const [sent, setSent] = useState(false);
  const cap = policy.cap ?? null;
  const folderCap = policy.folder_cap ?? null;
  const offered = MODES.slice(Math.max(...[cap, folderCap].map((one) => (one === null ? 0 : MODES.indexOf(one)))));
  const send = (decide_waiting = false): void => {
    setSent(true);
    run.send({ type: "policy", mode: chosen, decide_waiting });
  };
  const mayDecide = waiting > 0 && (chosen === "allow" || chosen === "edit");
  return (
    <>
      <Choices name="Policy of this conversation">
        {offered.map((mode) => ({
          key: mode,
          label: NAMES[mode],
          note: MEANING[mode],
          checked: mode === chosen,
          choose: () => choose(mode),
        }))}
      </Choices>
      {folderCap !== null && <p>The file in this folder allows {NAMES[folderCap]} at most.</p>}
      {cap !== null && cap !== "allow" && <p>This site allows {NAMES[cap]} at most.</p>}
      {chosen !== policy.mode && (
        <div class="ak-actions">
          {sent ? (
            <PressedButton name="Switching…" />
          ) : (
            <>
              <Button name={`Switch to ${NAMES[chosen]}`} small onPress={() => send()} />
              {mayDecide && <Button name="Switch, and decide what waits by it" small onPress={() => send(true)} />}
            </>
          )}
          <span class="ak-note">
            For this run, and later prompts of this conversation that name no policy. {consequence(chosen, waiting)}
          </span>
        </div>
      )}
    </>
  );
}

function consequence(mode: PolicyMode, waiting: number): string {
  if (waiting === 0) return "";
  const one = waiting === 1;
  const still = one ? "1 call still waits for you" : `${waiting} calls still wait for you`;
  const denied = one ? "The call that waits is denied" : `The ${waiting} calls that wait are denied`;
  switch (mode) {
    case "allow":
    case "edit":
      return `${still}, unless ${one ? "it is" : "they are"} decided by the switch.`;
    case "ask":
      return `${still}.`;
    case "plan":
      return `${denied}, ${one ? "unless it only reads" : "but for those that only read"}.`;
    case "deny":
      return `${denied}.`;
  }
}

/** Who made a rule, in the words that follow its text. */
function makerWords(rule: Rule): string {
  switch (rule.origin) {
    case "saved": {
      const where = rule.scope === null ? "all notebooks" : scopeWords(rule.scope);
      return (
        where +
        (rule.made_by ? `, saved by ${rule.made_by}` : ", saved") +
        (rule.made_at ? ` on ${rule.made_at.slice(0, 10)}` : "")
      );
    }
    case "code":
      return "from this notebook’s code";
    case "site":
      return "from this site";
    case "folder":
      return `from ${rule.made_by ?? "a file in the notebook’s folder"}`;
  }
}

function RuleLine({ rule, removable }: { rule: Rule; removable: boolean }): JSX.Element {
  const run = useRun();
  const { rule_id } = rule;
  return (
    <li>
      <span class="ak-grow">
        <Quoted text={ruleText(rule.text)} /> <Plain text={makerWords(rule)} />
      </span>
      {removable && rule_id !== null && (
        <OnceButton name="Remove" pressed="Removing…" onPress={() => run.send({ type: "rule_remove", rule_id })} />
      )}
    </li>
  );
}

type Files = NonNullable<RunView["instructions"]>;

/** `follows AGENTS.md, 2 skills`; empty where there is nothing to follow. */
export function followed(run: RunView): string {
  const used = (run.instructions ?? []).filter((one) => !one.off);
  const names = used.flatMap((one) => (one.skill ? [] : [one.file]));
  const skills = used.length - names.length;
  if (skills > 0) names.push(skills === 1 ? "1 skill" : `${skills} skills`);
  return names.length === 0 ? "" : `follows ${names.join(", ")}`;
}

export function Instructions({ files, open }: { files: Files; open: boolean }): JSX.Element | null {
  const run = useRun();
  if (files.length === 0) return null;
  return (
    <div class="ak-rules" role="group" aria-label="Instructions">
      <p>The model is told what these files say. They change no rule.</p>
      <ul>
        {files.map(({ file, off, beginning = "", characters = 0 }) => (
          <li key={file}>
            <span class="ak-grow">
              <Quoted text={file} />
              {off && " switched off for the next prompts of this conversation"}
              {beginning !== "" && (
                <details>
                  <summary>What it says</summary>
                  <pre class="ak-prompt-whole" dir="auto" tabIndex={0}>
                    <Plain text={beginning} />
                    {characters > beginning.length && `\n… [${leftOut(0, characters - [...beginning].length)} here]`}
                  </pre>
                </details>
              )}
            </span>
            {open && (
              <Button
                name={off ? "Switch on" : "Switch off"}
                small
                onPress={() => run.send({ type: "instructions", file, off: !off })}
              />
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}
