/** The small parts that cards and runs are made of: buttons, bars, choices, folds. */
import { type ReadonlySignal, signal } from "@preact/signals";
import { type ComponentChildren, createContext, type JSX, type ComponentChild } from "preact";
import { useContext, useState, useEffect } from "preact/hooks";
import { Icon, type IconName } from "./icon";
import { randomId } from "../text/format";
import { pieces } from "../text/invisible";

/** The action of a button, and of the keys that it shows. */
export interface Action {
  /** The accessible name: exact, without dots, counts and key hints. */
  readonly name: string;
  readonly keys?: readonly string[];
  readonly hint?: string;
  /** Shown after the name, and not part of it. */
  readonly after?: string;
}

interface ButtonProps extends Action {
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
export function Button(props: ButtonProps): JSX.Element {
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

interface BarProps {
  role: "status" | "alert" | "group";
  icon: IconName;
  tone?: string;
  children: ComponentChildren;
  /** At its end: buttons. */
  end?: ComponentChildren;
  [attribute: `data-${string}` | `aria-${string}`]: string | undefined;
}

/** A line across the run, for what is neither an answer nor a call. */
export function Bar({ icon, tone = "ak-calm", children, end, ...attributes }: BarProps): JSX.Element {
  return (
    <div class="ak-bar" {...attributes}>
      <Icon name={icon} tone={tone} />
      <span class="ak-grow">{children}</span>
      {end}
    </div>
  );
}

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

interface FoldProps {
  /** What stands in the line. */
  title: ComponentChildren;
  /** At the end of the line. */
  end?: string | null;
  /** The line and what is below it are the head and the body of a card. */
  card?: boolean;
  /** What is shown once it is opened. */
  children: () => ComponentChildren;
}

/** A line that opens what is below it. */
export function Fold({ title, end, card = false, children }: FoldProps): JSX.Element {
  const [open, setOpen] = useState(false);
  const id = usePageId();
  const mark = <Icon name={open ? "down" : "right"} tone="ak-chev" />;
  return (
    <>
      <button
        type="button"
        class={card ? "ak-head" : "ak-fold"}
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
      >
        {!card && mark}
        {card ? title : <span>{title}</span>}
        {end !== undefined && <span class="ak-end">{end}</span>}
        {card && <span class="ak-state">{mark}</span>}
      </button>
      <div id={id} class={card ? "ak-say" : "ak-folded-call"} hidden={!open}>
        {open && children()}
      </div>
    </>
  );
}

/** Unique on the page. Preact's `useId` counts again in each view, and a page has a view for each run, so a label would
 * name another card's field, and two cards' choices would be one group. */
export function usePageId(): string {
  const [id] = useState(randomId);
  return id;
}

/** Renders once a second while something on screen counts them. */
export function useSeconds(active: boolean): void {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(() => tick((n) => n + 1), 1_000);
    return () => clearInterval(timer);
  }, [active]);
}

/** The same as code: a name, a path, a value. */
export function Quoted({ text }: { text: string }): JSX.Element {
  return (
    <code>
      <Plain text={text} />
    </code>
  );
}

export function Plain({ text }: { text: string }): JSX.Element {
  const found = pieces(text);
  return <>{found.map((piece, index) => (index % 2 === 0 ? piece : <span class="ak-hidden">{piece}</span>))}</>;
}

/** A message of the runtime, which may have several lines, and code between backticks. Lines that are indented stay below
 * each other, as the columns that they are. */
export function Message({ text }: { text: string }): JSX.Element {
  const [first, ...rest] = text.split("\n");
  const parts: { columns: boolean; lines: string[] }[] = [];
  for (const line of rest) {
    const columns = line.startsWith("  ");
    const last = parts.at(-1);
    if (columns && last?.columns) last.lines.push(line.slice(2));
    else parts.push({ columns, lines: [columns ? line.slice(2) : line] });
  }
  return (
    <>
      {coded(first ?? "")}
      {parts.map(({ columns, lines }) =>
        columns ? (
          <pre class="ak-columns">{lines.join("\n")}</pre>
        ) : (
          <span class="ak-next">{coded(lines[0] ?? "")}</span>
        ),
      )}
    </>
  );
}

function coded(line: string): ComponentChild[] {
  return line.split(/`([^`]+)`/).map((part, index) => (index % 2 === 0 ? part : <code>{part}</code>));
}
