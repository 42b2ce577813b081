import { type ReadonlySignal, signal } from "@preact/signals";
import { type ComponentChildren, createContext, type JSX } from "preact";
import { useContext, useState } from "preact/hooks";

/** The action of a button, and of the keys that it shows. */
export interface Action {
  /** The accessible name: exact, without dots, counts and key hints. */
  readonly name: string;
  readonly keys?: readonly string[];
  readonly hint?: string;
  /** Shown after the name, and not part of it. */
  readonly after?: string;
}

interface Props extends Action {
  look?: "primary" | "quiet" | "plain";
  small?: boolean;
  /** The id of the text that says why the button is off. */
  offBecause?: string | undefined;
  expanded?: boolean | undefined;
  icon?: ComponentChildren;
  onPress: () => void;
}

/** For a moment after a decision, actions are off. */
export const Guard = createContext<ReadonlySignal<boolean>>(signal(false));

/** A button that is off keeps its place in the tab order and says why; its keys are off with it. */
export function Button(props: Props): JSX.Element {
  const guarded = useContext(Guard).value && props.keys !== undefined;
  const off = guarded || props.offBecause !== undefined;
  const press = (): void => {
    if (!off) props.onPress();
  };
  const classes = [
    "ak-btn",
    props.look && props.look !== "plain" ? `ak-${props.look}` : "",
    props.small ? "ak-small" : "",
  ];
  return (
    <button
      type="button"
      class={classes.filter(Boolean).join(" ")}
      aria-keyshortcuts={props.keys?.join(" ") || undefined}
      aria-expanded={props.expanded}
      aria-disabled={off ? "true" : undefined}
      data-guarded={guarded ? "" : undefined}
      aria-describedby={props.offBecause || undefined}
      data-hint={props.hint}
      style={
        props.hint !== undefined && props.hint.length > 1
          ? { "--ak-hint-room": `${7 * props.hint.length + 14}px` }
          : undefined
      }
      onClick={press}
    >
      {props.icon}
      <span>
        {props.name}
        {props.after !== undefined && <span aria-hidden="true">{props.after}</span>}
      </span>
      {props.hint !== undefined && <kbd aria-hidden="true">{props.hint}</kbd>}
    </button>
  );
}

/** The text in a button's place once it was pressed: "Cancelling…". */
export function PressedButton({ name }: { name: string }): JSX.Element {
  return (
    <button type="button" class="ak-btn ak-small" aria-disabled="true">
      {name}
    </button>
  );
}

/** A small button that is pressed once. */
export function OnceButton(props: { name: string; pressed: string; onPress: () => void }): JSX.Element {
  const [pressed, setPressed] = useState(false);
  const press = (): void => {
    setPressed(true);
    props.onPress();
  };
  return pressed ? <PressedButton name={props.pressed} /> : <Button name={props.name} small onPress={press} />;
}
