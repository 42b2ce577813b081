/** A group of radio buttons, each with a note. */
import type { JSX } from "preact";
import { usePageId } from "./hooks";
import { Plain } from "./untrustedText";

interface Option {
  readonly key: string;
  readonly label: string;
  readonly note: string;
  readonly checked: boolean;
  readonly choose: () => void;
}

export function Choices({ name, children }: { name: string; children: readonly Option[] }): JSX.Element {
  const group = usePageId();
  return (
    <fieldset class="ak-choices" aria-label={name}>
      {children.map((option) => (
        <label class="ak-choice" key={option.key}>
          <input type="radio" name={group} checked={option.checked} onChange={option.choose} />
          <span>
            <Plain text={option.label} />
          </span>
          <span class="ak-note">{option.note}</span>
        </label>
      ))}
    </fieldset>
  );
}
