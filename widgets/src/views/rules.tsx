/** What the policy badge opens: the mode in words, and the always-allow rules in force. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { PolicyMode, RunView } from "../protocol";
import { scopeWords } from "./allow";
import { Button } from "./button";
import { useActions } from "./context";
import { Plain } from "./text";

type Rule = RunView["policy"]["rules"][number];

const MEANING: Readonly<Record<PolicyMode, string>> = {
  ask: "A call that may change something waits for you, unless a rule allows it. Rules that deny or ask win.",
  plan: "Tools that only read may run. Every other call is denied.",
  allow: "Calls run without asking, unless a rule denies or asks.",
  deny: "Every call is denied.",
};

/** `removable`: the run goes on, so that a rule can be taken back here. */
export function Rules({ policy, removable }: { policy: RunView["policy"]; removable: boolean }): JSX.Element {
  return (
    <div class="ak-rules" role="group" aria-label="Policy in force">
      <p>{MEANING[policy.mode]}</p>
      {policy.rules.length > 0 && (
        <ul>{policy.rules.map((rule) => <RuleLine key={rule.rule_id} rule={rule} removable={removable} />)}</ul>
      )}
      {policy.rules.length === 0 && policy.mode === "ask" && <p>No always-allow rule is in force.</p>}
    </div>
  );
}

function RuleLine({ rule, removable }: { rule: Rule; removable: boolean }): JSX.Element {
  const actions = useActions();
  const [asked, setAsked] = useState(false);
  const remove = (): void => {
    setAsked(true);
    actions.send({ type: "rule_remove", rule_id: rule.rule_id });
  };
  return (
    <li>
      <span class="ak-grow"><code><Plain text={rule.text} /></code> {scopeWords(rule.scope)}</span>
      {removable && (asked ? <button type="button" class="ak-btn ak-small" aria-disabled="true">Removing…</button> : <Button name="Remove" small onPress={remove} />)}
    </li>
  );
}
