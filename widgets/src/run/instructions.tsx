/** The files that say how to work, and the skills, that the model is told of: named in the header, switched off in the badge's panel. */
import type { JSX } from "preact";
import type { RunView } from "../protocol";
import { useRun } from "../card/context";
import { count } from "../text/format";
import { filled } from "../text/words";
import { SHARED } from "../text/words.gen";
import { Button } from "../ui/button";
import { Plain } from "../ui/untrustedText";

type Files = NonNullable<RunView["instructions"]>;

/** `follows AGENTS.md, 2 skills`; empty where there is nothing to follow. */
export function followed(run: RunView): string {
  const used = (run.instructions ?? []).filter((one) => !one.off);
  const names = used.flatMap((one) => (one.skill ? [] : [one.file]));
  const skills = used.length - names.length;
  if (skills > 0) names.push(skills === 1 ? "1 skill" : `${skills} skills`);
  return names.length === 0 ? "" : filled(SHARED.instructions, { names: names.join(", ") });
}

export function Instructions({ files, open }: { files: Files; open: boolean }): JSX.Element | null {
  const run = useRun();
  if (files.length === 0) return null;
  return (
    <div class="ak-rules" role="group" aria-label="Instructions">
      <p>The model is told what these files say. They change no rule.</p>
      <ul>
        {files.map(({ file, off, beginning = "", characters = 0 }) => (
          <li key={file}>
            <span class="ak-grow">
              <code>
                <Plain text={file} />
              </code>
              {off && " switched off for the next prompts of this conversation"}
              {beginning !== "" && (
                <details>
                  <summary>What it says</summary>
                  <pre class="ak-prompt-whole" dir="auto" tabIndex={0}>
                    <Plain text={beginning} />
                    {characters > beginning.length && `\n… ${count(characters - beginning.length)} more characters.`}
                  </pre>
                </details>
              )}
            </span>
            {open && (
              <Button
                name={off ? "Switch on" : "Switch off"}
                small
                onPress={() => run.send({ type: "instructions", file, off: !off })}
              />
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}
