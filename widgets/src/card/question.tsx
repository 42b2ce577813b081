/** A question of the model to the person: choices, free text, or both. */
import { h, type JSX, type TargetedInputEvent } from "preact";
import { useState } from "preact/hooks";
import type { ClientCommand } from "../protocol";
import { parseArguments } from "../text/arguments";
import { SHARED } from "../text/words.gen";
import { Button, usePageId, Plain } from "../ui/parts";
import { ACTIONS } from "./looks";
import type { CallModel } from "../store/run";
import { useRun } from "./context";

/** So many choices have a key each. */
const NUMBERED = 9;

export function Question({ card }: { card: CallModel }): JSX.Element {
  const run = useRun();
  const call = card.call.value;
  const { question, choices, line } = readQuestion(call.tool_input);
  const [choice, setChoice] = useState<string | null>(null);
  const [words, setWords] = useState("");
  const [sent, setSent] = useState(false);
  const group = usePageId();
  const answer = line !== null || words.trim() !== "" ? words : choice;
  const { guarded } = run.store;
  const send = (command: ClientCommand): void => {
    if (sent || guarded.peek()) return;
    setSent(true);
    run.answer(card, command);
  };
  const sendAnswer = (): void => {
    if (answer !== null) send({ type: "tool_result", tool_call_id: call.tool_call_id, output: answer });
  };
  /** What was typed straight after a decision, or another answer, was meant for that. */
  const write = ({ currentTarget: field }: TargetedInputEvent<HTMLInputElement | HTMLTextAreaElement>): void => {
    if (guarded.peek()) field.value = words;
    else setWords(field.value);
  };
  const field = { class: "ak-field", "aria-label": SHARED.card.yourAnswer, value: words, onInput: write };
  if (sent) return <div class="ak-say">{line === null ? "Sent to the agent." : "Sent to the code."}</div>;
  return (
    <>
      <div class="ak-panel">
        <fieldset class="ak-choices ak-question">
          <legend>
            <Plain text={question} />
          </legend>
          {choices.map((one, index) => (
            <label class="ak-choice" key={index}>
              <input
                type="radio"
                name={group}
                aria-keyshortcuts={index < NUMBERED ? String(index + 1) : undefined}
                checked={one === choice}
                onChange={() => setChoice(one)}
              />
              {index < NUMBERED && (
                <kbd class="ak-key" aria-hidden="true">
                  {index + 1}
                </kbd>
              )}
              <span>
                <Plain text={one} />
              </span>
            </label>
          ))}
        </fieldset>
        {line === null ? (
          <textarea
            {...field}
            rows={1}
            data-takes-focus={choices.length === 0 ? "" : undefined}
            placeholder={choices.length > 0 ? "Or answer in your own words" : SHARED.card.yourAnswer}
          />
        ) : (
          h("input", { ...field, type: line, autocomplete: "off", "data-enter": "send", "data-takes-focus": "" })
        )}
      </div>
      <div class="ak-actions">
        <span class="ak-off-reason" id={`${group}-off`} hidden>
          Choose or write an answer first.
        </span>
        <Button
          {...(line === null ? ACTIONS.sendAnswer : ACTIONS.sendLine)}
          look="primary"
          offBecause={answer === null ? `${group}-off` : undefined}
          onPress={sendAnswer}
        />
        <Button
          {...ACTIONS.skip}
          look="quiet"
          onPress={() => send({ type: "tool_cancel", tool_call_id: call.tool_call_id })}
        />
        <span class="ak-note">{NOTES[line ?? "answer"]}</span>
      </div>
    </>
  );
}

const NOTES = {
  answer: "Skip tells the model that you did not answer.",
  text: "Skip interrupts the code that asks.",
  password: "Only the code gets it; it is kept nowhere. Skip interrupts the code.",
} as const;

interface Asked {
  readonly question: string;
  readonly choices: readonly string[];
  /** What the code of a call asks for, where it is not the model that asks. */
  readonly line: "text" | "password" | null;
}

function readQuestion(input: string | null): Asked {
  const values = parseArguments(input) ?? {};
  const choices = values["choices"] ?? values["options"];
  return {
    question: typeof values["question"] === "string" ? values["question"] : "",
    choices: Array.isArray(choices) ? choices.map(String) : [],
    line: values["line"] === "text" || values["line"] === "password" ? values["line"] : null,
  };
}
