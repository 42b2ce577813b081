/** Edit: the person's version of a call, kept while the panel is closed. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Call } from "../state";
import { editable, lineCount } from "../text/arguments";
import { plural } from "../text/format";
import { Button } from "../ui/button";
import { useActions, type Choice } from "../run/context";
import { changedLines, Editor } from "./editor";

/** What a person has written about one call and not sent. */
export class Draft {
  readonly reason = { text: "" };
  /** Goes up when the editor's text is put back to the model's. */
  version = 0;
  /** Goes up with every change. */
  edits = 0;
  private text: string | null = null;

  constructor(
    private readonly call: () => Call,
    private readonly changed: () => void,
  ) {}

  get current(): string {
    return this.text ?? this.original;
  }

  get original(): string {
    return editable(this.call().name, this.call().input ?? "").text;
  }

  write(text: string): void {
    this.text = text;
    this.edits += 1;
    this.changed();
  }

  reset(): void {
    this.text = null;
    this.version += 1;
    this.edits += 1;
    this.changed();
  }

  /** Approving what was not changed is an approval, not an edit. */
  choice(): Choice {
    if (this.current === this.original) return { kind: "approve" };
    return { kind: "edit", input: editable(this.call().name, this.call().input ?? "").rebuild(this.current) };
  }

  note(): string {
    const changed = changedLines(this.original, this.current).length;
    return `Editing, ${changed} of ${plural(lineCount(this.current), "line")} changed`;
  }
}

export function EditPanel({ call, draft }: { call: Call; draft: Draft }): JSX.Element {
  const [language] = useState(() => editable(call.name, call.input ?? "").language);
  return (
    <Editor
      text={draft.current}
      original={draft.original}
      language={language}
      label={`Edit ${call.name}`}
      version={draft.version}
      onChange={(text) => draft.write(text)}
    />
  );
}

EditPanel.Actions = function EditActions({
  call,
  draft,
  guarded,
}: {
  call: Call;
  draft: Draft;
  guarded: boolean;
}): JSX.Element {
  const actions = useActions();
  return (
    <div class="ak-actions" data-guarded={guarded ? "" : undefined}>
      <Button
        name="Approve"
        shortcut="Control+Enter"
        hint="Ctrl Enter"
        look="primary"
        offBecause={guarded ? "" : undefined}
        onPress={() => actions.decide(call, draft.choice())}
      />
      <Button name="Reset" onPress={() => draft.reset()} />
      <Button name="Back" shortcut="Escape" hint="Esc" look="quiet" onPress={() => actions.openPanel(call, "none")} />
      <span class="ak-note">Approves your version.</span>
    </div>
  );
};
