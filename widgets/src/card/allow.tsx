/** Always allow: the rule is chosen and shown as it will be saved, before it is saved. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RuleOffer, Scope } from "../protocol";
import type { Call } from "../state";
import { SHARED } from "../text/words.gen";
import { Button } from "../ui/button";
import { Choices } from "../ui/choices";
import { ACTIONS } from "./actions";
import { useRun, type CallSignals } from "./context";
import { Plain } from "../ui/untrustedText";

type RuleScope = Exclude<Scope, "once">;

const SCOPES = SHARED.scopes;

export function mayAlwaysAllow(call: Call): boolean {
  return call.rules.length > 0 && ruleScopes(call).length > 0;
}

/** The scope of a rule, in the words that follow its text. */
export function scopeWords(scope: Scope): string {
  return scope === "once" ? "once" : SCOPES[scope].rule;
}

/** Scopes that save a rule, in the order from narrow to wide. */
function ruleScopes(call: Call): RuleScope[] {
  return (Object.keys(SCOPES) as RuleScope[]).filter((scope) => call.scopes.includes(scope));
}

export function AllowPanel({ card }: { card: CallSignals }): JSX.Element | null {
  const run = useRun();
  const call = card.call.value;
  const scopes = ruleScopes(call);
  const [scope, setScope] = useState<RuleScope>(scopes[0] ?? "conversation");
  const [chosen, choose] = useState<RuleOffer | undefined>(call.rules[0]);
  const root = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => root.current?.querySelector("input")?.focus(), []);
  const save = (): void => {
    if (chosen !== undefined) run.decide(card, { kind: "always", scope, rule: chosen.text });
  };
  if (chosen === undefined) return null;
  return (
    <div class="ak-pop" role="dialog" aria-label="Always allow" ref={root}>
      <dl>
        <dt>What</dt>
        <dd>
          <Choices name="What">
            {call.rules.map((rule) => ({
              key: rule.text,
              label: rule.label,
              note: rule.note,
              checked: rule.text === chosen.text,
              choose: () => choose(rule),
            }))}
          </Choices>
        </dd>
        <dt>Where</dt>
        <dd>
          <Choices name="Where">
            {scopes.map((one) => ({
              key: one,
              label: SCOPES[one].name,
              note: SCOPES[one].note,
              checked: one === scope,
              choose: () => setScope(one),
            }))}
          </Choices>
        </dd>
        <dt>Rule</dt>
        <dd>
          <pre class="ak-rule">
            <Plain text={chosen.text} /> {SCOPES[scope].rule}
          </pre>
        </dd>
      </dl>
      <div class="ak-actions">
        <Button {...ACTIONS.saveRule} look="primary" onPress={save} />
        <Button {...ACTIONS.back} look="quiet" onPress={() => run.openPanel(card, "none")} />
        <span class="ak-note">{SHARED.card.rulesWin} Remove it under the policy badge.</span>
      </div>
    </div>
  );
}
