/** A line across the run, for what is neither an answer nor a call. */
import type { ComponentChildren, JSX } from "preact";
import { Icon, type IconName } from "./icon";

interface Props {
  role: "status" | "alert" | "group";
  icon: IconName;
  tone?: string;
  children: ComponentChildren;
  /** At its end: buttons. */
  end?: ComponentChildren;
  [attribute: `data-${string}` | `aria-${string}`]: string | undefined;
}

export function Bar({ icon, tone = "ak-calm", children, end, ...attributes }: Props): JSX.Element {
  return (
    <div class="ak-bar" {...attributes}>
      <Icon name={icon} tone={tone} />
      <span class="ak-grow">{children}</span>
      {end}
    </div>
  );
}
