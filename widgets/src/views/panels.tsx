/** What opens below a waiting call: the reason of a denial, and the rule that Always allow would save. */
import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Scope } from "../protocol";
import type { Call } from "../state";
import { Button } from "./button";
import { useActions } from "./context";
import { Plain } from "./text";

export function ReasonPanel({ call, draft }: { call: Call; draft: { text: string } }): JSX.Element {
  const actions = useActions();
  const field = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  useEffect(() => field.current?.focus(), []);
  return (
    <>
      <div class="ak-panel">
        <label for={id}>Reason</label> <span class="ak-note" id={`${id}-hint`}>optional; the model reads it and goes on</span>
        <textarea
          id={id}
          ref={field}
          class="ak-field"
          rows={1}
          maxLength={10_000}
          data-enter="send"
          aria-describedby={`${id}-hint`}
          defaultValue={draft.text}
          onInput={(event) => (draft.text = event.currentTarget.value)}
        />
      </div>
      <div class="ak-actions">
        <Button name="Deny" shortcut="Enter" hint="Enter" onPress={() => actions.decide(call, { kind: "deny", reason: draft.text })} />
        <Button name="Back" shortcut="Escape" hint="Esc" look="quiet" onPress={() => actions.openPanel(call, "none")} />
      </div>
    </>
  );
}

type RuleScope = Exclude<Scope, "once">;

const SCOPES: Readonly<Record<RuleScope, { readonly name: string; readonly note: string; readonly rule: string }>> = {
  conversation: { name: "This conversation", note: "until it is deleted", rule: "in this conversation" },
  project: { name: "This project", note: "every notebook in this one’s folder", rule: "in this project" },
  user: { name: "All my notebooks", note: "on this server", rule: "in all my notebooks" },
};

/** Scopes that save a rule, in the order from narrow to wide. */
export function ruleScopes(call: Call): RuleScope[] {
  return (Object.keys(SCOPES) as RuleScope[]).filter((scope) => call.scopes.includes(scope));
}

export function AllowPanel({ call }: { call: Call }): JSX.Element {
  const actions = useActions();
  const scopes = ruleScopes(call);
  const [scope, setScope] = useState<RuleScope>(scopes[0] ?? "conversation");
  const root = useRef<HTMLDivElement>(null);
  const group = useId();
  useEffect(() => root.current?.querySelector("input")?.focus(), []);
  return (
    <div class="ak-pop" role="dialog" aria-label="Always allow" ref={root}>
      <dl>
        <dt>What</dt>
        <dd class="ak-what">Every <code><Plain text={call.name} /></code> call, with any arguments</dd>
        <dt>Where</dt>
        <dd>
          <fieldset class="ak-choices" aria-label="Where">
            {scopes.map((one) => (
              <label class="ak-choice" key={one}>
                <input type="radio" name={group} checked={one === scope} onChange={() => setScope(one)} />
                <span>{SCOPES[one].name}</span>
                <span class="ak-note">{SCOPES[one].note}</span>
              </label>
            ))}
          </fieldset>
        </dd>
        <dt>Rule</dt>
        <dd><pre class="ak-rule">allow <Plain text={call.name} /> {SCOPES[scope].rule}</pre></dd>
      </dl>
      <div class="ak-actions">
        <Button name="Save rule and approve" look="primary" onPress={() => actions.decide(call, { kind: "always", scope })} />
        <Button name="Back" shortcut="Escape" hint="Esc" look="quiet" onPress={() => actions.openPanel(call, "none")} />
        <span class="ak-note">Rules that deny or ask still win.</span>
      </div>
    </div>
  );
}
