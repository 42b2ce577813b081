import type { ComponentChildren, JSX } from "preact";

interface Props {
  /** The accessible name: exact, without dots, counts and key hints. */
  name: string;
  shortcut?: string;
  hint?: string;
  /** Shown after the name, and not part of it. */
  after?: string;
  look?: "primary" | "quiet" | "plain";
  small?: boolean;
  /** The id of the text that says why the button is off. */
  offBecause?: string | undefined;
  expanded?: boolean | undefined;
  icon?: ComponentChildren;
  onPress: () => void;
}

/** A button that is off keeps its place in the tab order and says why. */
export function Button(props: Props): JSX.Element {
  const off = props.offBecause !== undefined;
  const classes = [
    "ak-btn",
    props.look && props.look !== "plain" ? `ak-${props.look}` : "",
    props.small ? "ak-small" : "",
  ];
  return (
    <button
      type="button"
      class={classes.filter(Boolean).join(" ")}
      aria-keyshortcuts={props.shortcut}
      aria-expanded={props.expanded}
      aria-disabled={off ? "true" : undefined}
      aria-describedby={props.offBecause || undefined}
      style={
        props.hint !== undefined && props.hint.length > 1
          ? { "--ak-hint-room": `${7 * props.hint.length + 14}px` }
          : undefined
      }
      onClick={() => off || props.onPress()}
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
