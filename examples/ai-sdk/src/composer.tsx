/** Where a message is written, and what may be asked first. */

import { useState } from "react";

/** The demo is a recording: it answers these. A real model answers whatever you ask. */
const SUGGESTIONS = [
  "What is in `penguins`? Compare the species, and say what is missing.",
  "Plot body mass against flipper length, one colour per species. How strongly are they related?",
  "Save the penguins that have no missing value to `penguins_complete.csv`.",
];

export function Suggestions({ onPick }: { onPick: (text: string) => void }) {
  return (
    <section className="begin" aria-label="Suggestions">
      <h2>Ask about the data in the notebook</h2>
      <p>It answers with code, which runs in the notebook’s own kernel, and not before you say so.</p>
      {SUGGESTIONS.map((text) => (
        <button key={text} onClick={() => onPick(text)}>
          {text.replaceAll("`", "")}
        </button>
      ))}
    </section>
  );
}

type ComposerProps = { streams: boolean; onSend: (text: string) => void; onStop?: () => void };

export function Composer({ streams, onSend, onStop }: ComposerProps) {
  const [text, setText] = useState("");
  const send = () => {
    if (streams || text.trim() === "") return;
    onSend(text.trim());
    setText("");
  };
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        aria-label="Message"
        placeholder="Ask about the data"
        rows={1}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      {onStop && (
        <button type="button" onClick={onStop}>
          Stop
        </button>
      )}
      {!streams && <button className="primary">Send</button>}
    </form>
  );
}
