/** A question of the model to the person: choices, free text, or both. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ClientCommand } from "../protocol";
import type { Call } from "../state";
import { parseArguments } from "../text/arguments";
import { Button } from "../ui/button";
import { useActions, useForm } from "../run/context";
import { usePageId } from "../ui/ids";
import { Plain } from "../ui/text";

export function Question({ call }: { call: Call }): JSX.Element {
  const actions = useActions();
  const { question, choices } = readQuestion(call.input);
  const [choice, setChoice] = useState<string | null>(null);
  const [words, setWords] = useState("");
  const [sent, setSent] = useState(false);
  const group = usePageId();
  const answer = words.trim() !== "" ? words : choice;
  const send = (command: ClientCommand): void => {
    setSent(true);
    actions.answer(call, command);
  };
  const sendAnswer = (): void => {
    if (answer !== null && !sent) send({ type: "tool_result", tool_call_id: call.id, output: answer });
  };
  useForm(call.id, {
    send: sendAnswer,
    choose: (number) => choices[number - 1] !== undefined && setChoice(choices[number - 1] ?? null),
  });
  if (sent) return <div class="ak-say">Sent to the agent.</div>;
  return (
    <>
      <div class="ak-panel">
        <fieldset class="ak-choices ak-question">
          <legend>
            <Plain text={question} />
          </legend>
          {choices.map((one, index) => (
            <label class="ak-choice" key={index}>
              <input type="radio" name={group} checked={one === choice} onChange={() => setChoice(one)} />
              {index < 9 && (
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
        <textarea
          class="ak-field"
          rows={1}
          aria-label="Your answer"
          placeholder={choices.length > 0 ? "Or answer in your own words" : "Your answer"}
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
      </div>
      <div class="ak-actions">
        <span class="ak-off-reason" id={`${group}-off`} hidden>
          Choose or write an answer first.
        </span>
        <Button
          name="Send"
          look="primary"
          shortcut="Control+Enter"
          hint="Ctrl Enter"
          offBecause={answer === null ? `${group}-off` : undefined}
          onPress={sendAnswer}
        />
        <Button name="Skip" look="quiet" onPress={() => send({ type: "tool_cancel", tool_call_id: call.id })} />
        <span class="ak-note">Skip tells the model that you did not answer.</span>
      </div>
    </>
  );
}

function readQuestion(input: string | null): { question: string; choices: string[] } {
  const values = parseArguments(input) ?? {};
  const choices = values["choices"] ?? values["options"];
  return {
    question: typeof values["question"] === "string" ? values["question"] : "",
    choices: Array.isArray(choices) ? choices.map(String) : [],
  };
}
