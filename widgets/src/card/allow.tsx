/** Rules that a decision saves, for this run or beyond it: each is chosen and shown as it will be saved, before it is. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RuleOffer, Scope } from "../protocol";
import type { Call } from "../state/model";
import { ruleText } from "../text/words";
import { Button, Choices, Plain } from "../ui/parts";
import { ACTIONS } from "./looks";
import type { CallModel } from "../store/run";
import { useRun } from "./context";

export type RuleScope = Exclude<Scope, "once">;

/** The places that a rule can be saved for, from narrow to wide. */
const SCOPES: Readonly<Record<RuleScope, Readonly<Record<"name" | "note" | "rule", string>>>> = {
  run: { name: "This run", note: "until it ends", rule: "in this run" },
  conversation: { name: "This conversation", note: "until it is deleted", rule: "in this conversation" },
  project: { name: "This project", note: "every notebook in this one’s folder", rule: "in this project" },
  user: { name: "All my notebooks", note: "on this server", rule: "in all my notebooks" },
};

/** The panels: for the rest of this run, and for longer. */
export type RulePanel = "run" | "allow";

export function maySaveRule(call: Call, panel: RulePanel): boolean {
  return ruleScopes(call, panel).length > 0;
}

/** The scope of a rule, in the words that follow its text. */
export function scopeWords(scope: Scope): string {
  return scope === "once" ? "once" : SCOPES[scope].rule;
}

/** Scopes for which a panel has a rule to save, in the order from narrow to wide. */
function ruleScopes(call: Call, panel: RulePanel): RuleScope[] {
  return (Object.keys(SCOPES) as RuleScope[]).filter(
    (scope) =>
      (scope === "run") === (panel === "run") &&
      call.scopes.includes(scope) &&
      call.rules.some((rule) => rule.scopes.includes(scope)),
  );
}

export function AllowPanel({ card, panel }: { card: CallModel; panel: RulePanel }): JSX.Element | null {
  const run = useRun();
  const call = card.call.value;
  const scopes = ruleScopes(call, panel);
  const [scope, setScope] = useState<RuleScope>(scopes[0] ?? "conversation");
  const rules = call.rules.filter((rule) => rule.scopes.includes(scope));
  const [chosen, choose] = useState<RuleOffer | undefined>(rules[0]);
  const root = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => root.current?.querySelector("input")?.focus(), []);
  const save = (): void => {
    if (chosen !== undefined) run.decide(card, { approved: true, scope, rule: chosen.text });
  };
  if (chosen === undefined) return null;
  return (
    <div
      class="ak-pop"
      role="dialog"
      aria-label={panel === "run" ? "Don’t ask again in this run" : "Always allow"}
      ref={root}
    >
      <dl>
        <dt>What</dt>
        <dd>
          <Choices name="What">
            {rules.map((rule) => ({
              key: rule.text,
              label: rule.label,
              note: rule.note,
              checked: rule.text === chosen.text,
              choose: () => choose(rule),
            }))}
          </Choices>
        </dd>
        {panel === "allow" && (
          <>
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
          </>
        )}
        <dt>Rule</dt>
        <dd>
          <pre class="ak-rule">
            <Plain text={ruleText(chosen.text)} /> {SCOPES[scope].rule}
          </pre>
        </dd>
      </dl>
      <div class="ak-actions">
        <Button {...(panel === "run" ? ACTIONS.allowInRun : ACTIONS.saveRule)} look="primary" onPress={save} />
        <Button {...ACTIONS.back} look="quiet" onPress={() => run.openPanel(card, "none")} />
        <span class="ak-note">Rules that deny or ask still win. Remove it under the policy badge.</span>
      </div>
    </div>
  );
}
