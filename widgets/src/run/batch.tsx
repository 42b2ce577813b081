/** Above two or more waiting calls: one answer for all that are on screen now. */
import type { JSX } from "preact";
import type { Call } from "../state";
import { Button } from "../ui/button";
import { Icon } from "../ui/icon";

interface Props {
  calls: readonly Call[];
  guarded: boolean;
  onAll: (approved: boolean) => void;
}

export function BatchBar({ calls, guarded, onAll }: Props): JSX.Element {
  const offBecause = guarded ? "" : undefined;
  return (
    <div class="ak-bar ak-batch" role="group" aria-label="Waiting calls" data-guarded={guarded ? "" : undefined}>
      <Icon name="wait" tone="ak-turn" />
      <span class="ak-grow">
        <b>{calls.length} calls are waiting for you.</b> <span class="ak-muted">{warningsOf(calls)}</span>
      </span>
      <Button
        name="Approve all"
        after={` (${calls.length})`}
        shortcut="Shift+A"
        hint="⇧A"
        offBecause={offBecause}
        onPress={() => onAll(true)}
      />
      <Button name="Deny all" shortcut="Shift+D" hint="⇧D" offBecause={offBecause} onPress={() => onAll(false)} />
    </div>
  );
}

const NUMBERS = ["No call", "One", "Two", "Three", "Four", "Five", "Six"];

/** "One writes files. Two delete rows." */
function warningsOf(calls: readonly Call[]): string {
  const counts = new Map<string, number>();
  for (const call of calls) {
    for (const title of new Set(call.warnings.map((warning) => warning.title.replace(/:$/, "").toLowerCase()))) {
      counts.set(title, (counts.get(title) ?? 0) + 1);
    }
  }
  return [...counts]
    .map(([title, count]) => `${NUMBERS[count] ?? count} ${count === 1 ? title : pluralVerb(title)}.`)
    .join(" ");
}

function pluralVerb(title: string): string {
  return title.replace(/^(\w+?)s\b/, "$1");
}
