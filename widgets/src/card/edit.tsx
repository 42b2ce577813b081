/** Edit: the person's version of a call, kept while the panel is closed. */
import { computed, signal, type ReadonlySignal } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Call } from "../state/model";
import { changedLines, editable, lineCount } from "../text/arguments";
import { plural } from "../text/format";
import { Part } from "../text/code";
import { Button } from "../ui/parts";
import { SUPPRESS_SHORTCUTS } from "../ui/notebook";
import { ACTIONS } from "./looks";
import type { Decision } from "../store/controller";
import type { CallModel } from "../store/run";
import { useRun } from "./context";

export const editing = new Part(() => import("./editor"));

/** A person's unsent draft for one call. */
export class Draft {
  readonly reason = { text: "" };
  /** Goes up when the editor's text is put back to the model's. */
  readonly resets = signal(0);
  private readonly text = signal<string | null>(null);

  constructor(private readonly call: ReadonlySignal<Call>) {}

  readonly original = computed(() => editable(this.call.value.tool_name, this.call.value.tool_input ?? "").text);
  readonly current = computed(() => this.text.value ?? this.original.value);
  readonly note = computed(() => {
    const changed = changedLines(this.original.value, this.current.value).length;
    return `Editing, ${changed} of ${plural(lineCount(this.current.value), "line")} changed`;
  });

  write(text: string): void {
    this.text.value = text;
  }

  reset(): void {
    this.text.value = null;
    this.resets.value += 1;
  }

  /** Approving what was not changed is an approval, not an edit. */
  decision(): Decision {
    const { tool_name: name, tool_input: input } = this.call.peek();
    const text = this.current.peek();
    if (text === this.original.peek()) return { approved: true };
    return { approved: true, edited_input: editable(name, input ?? "").rebuild(text) };
  }
}

export function EditPanel({ call, draft }: { call: Call; draft: Draft }): JSX.Element {
  const [language] = useState(() => editable(call.tool_name, call.tool_input ?? "").language);
  const editor = editing.value;
  const label = `Edit ${call.tool_name}`;
  if (editor === null) return <PlainEditor label={label} draft={draft} />;
  return (
    <editor.Editor
      text={draft.current.peek()}
      original={draft.original.value}
      language={language}
      label={label}
      version={draft.resets.value}
      onChange={(text) => draft.write(text)}
    />
  );
}

/** Until the editor has come, and where it does not: what is typed meanwhile is kept. */
function PlainEditor({ label, draft }: { label: string; draft: Draft }): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  return (
    <textarea
      ref={field}
      class="ak-editor ak-plain"
      aria-label={label}
      spellcheck={false}
      rows={Math.min(20, lineCount(draft.current.value))}
      value={draft.current.value}
      onInput={({ currentTarget }) => draft.write(currentTarget.value)}
      {...{ [SUPPRESS_SHORTCUTS]: "true" }}
    />
  );
}

export function EditActions({ card, draft }: { card: CallModel; draft: Draft }): JSX.Element {
  const run = useRun();
  return (
    <div class="ak-actions">
      <Button {...ACTIONS.approveEdited} look="primary" onPress={() => run.decide(card, draft.decision())} />
      <Button name="Reset" onPress={() => draft.reset()} />
      <Button {...ACTIONS.back} look="quiet" onPress={() => run.openPanel(card, "none")} />
      <span class="ak-note">Approves your version.</span>
    </div>
  );
}
