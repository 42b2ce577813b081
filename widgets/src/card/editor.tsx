/** The editor on a call's code: what stands in it is what runs, once it was checked and judged again. */
import {
  acceptCompletion,
  autocompletion,
  startCompletion,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec, type Extension } from "@codemirror/state";
import { Decoration, EditorView, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { changedLines } from "../text/arguments";
import { highlighter, shellLanguage } from "../text/highlight";
import { HIDDEN_CHARACTERS, marker } from "../text/invisible";
import { ask, COMPLETE, complete } from "../ui/events";
import { SUPPRESS_SHORTCUTS } from "../ui/notebook";

interface Props {
  text: string;
  original: string;
  language: string;
  label: string;
  /** Goes up when the text is to be put back to `text`. */
  version: number;
  onChange: (text: string) => void;
}

export function Editor(props: Props): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  useLayoutEffect(() => {
    if (place.current === null) return;
    const view = new EditorView({
      parent: place.current,
      state: startState(latest.current, (text) => latest.current.onChange(text)),
    });
    view.focus();
    return () => view.destroy();
  }, [props.version]);
  return <div class="ak-editor" ref={place} />;
}

function startState(props: Props, onChange: (text: string) => void): EditorState {
  return EditorState.create({
    doc: props.text,
    extensions: [
      lineNumbers(),
      history(),
      keymap.of([...defaultKeymap.filter((binding) => binding.key !== "Mod-Enter"), ...historyKeymap, indentWithTab]),
      indentUnit.of("    "),
      EditorView.lineWrapping,
      syntaxHighlighting(highlighter),
      languageOf(props.language),
      props.language === "python" ? byTheKernel : [],
      highlightSpecialChars({ specialChars: HIDDEN_CHARACTERS, render: (code) => hiddenMarker(code) }),
      changedLineMarks(props.original),
      EditorView.contentAttributes.of({ "aria-label": props.label, [SUPPRESS_SHORTCUTS]: "true" }),
      EditorView.updateListener.of((update) => update.docChanged && onChange(update.state.doc.toString())),
    ],
  });
}

/** Tab behind a word completes it; elsewhere it indents. */
const byTheKernel: Extension = [
  // No delay before its keys count: it opens by a press alone, so the next key is meant for it.
  autocompletion({ override: [completions], activateOnTyping: false, icons: false, interactionDelay: 0 }),
  Prec.high(keymap.of([{ key: "Tab", run: (view) => acceptCompletion(view) || completeWord(view) }])),
];

function completeWord(view: EditorView): boolean {
  const { main } = view.state.selection;
  const { text, from } = view.state.doc.lineAt(main.head);
  return (
    main.empty && /\S$/.test(text.slice(0, main.head - from)) && ask(view.dom, COMPLETE, null) && startCompletion(view)
  );
}

async function completions({ state, pos, view }: CompletionContext): Promise<CompletionResult | null> {
  if (view === undefined) return null;
  const found = await complete(view.dom, state.doc.toString(), pos);
  return found && { from: found.from, to: found.to, options: found.options, filter: false };
}

function languageOf(language: string): Extension {
  if (language === "python") return python();
  return language === "shell" ? shellLanguage : [];
}

function hiddenMarker(code: number): HTMLElement {
  const mark = document.createElement("span");
  mark.className = "ak-hidden";
  mark.textContent = marker(String.fromCodePoint(code));
  return mark;
}

function changedLineMarks(original: string): Extension {
  const mark = Decoration.line({ class: "ak-changed" });
  return EditorView.decorations.compute(["doc"], ({ doc }) =>
    Decoration.set(changedLines(original, doc.toString()).map((line) => mark.range(doc.line(line).from))),
  );
}
