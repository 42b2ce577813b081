/** Above two or more waiting calls: one answer for all that are on screen now. */
import type { JSX } from "preact";
import { ACTIONS } from "../card/actions";
import type { Call } from "../state";
import { filled } from "../text/words";
import { SHARED } from "../text/words.gen";
import { Button } from "../ui/button";
import { Icon } from "../ui/icon";
import type { RunController } from "./controller";

export function BatchBar({ controller }: { controller: RunController }): JSX.Element {
  const { answerable, guarded } = controller.store;
  const calls = answerable.value.map((card) => card.call.value);
  const offBecause = guarded.value ? "" : undefined;
  return (
    <div
      class="ak-bar ak-batch"
      role="group"
      aria-label="Waiting calls"
      data-guarded={guarded.value ? "" : undefined}
      onKeyDown={(event) => controller.keys.take(event)}
    >
      <Icon name="wait" tone="ak-turn" />
      <span class="ak-grow">
        <b>{filled(SHARED.card.several, { count: calls.length })}</b> <span class="ak-muted">{warningsOf(calls)}</span>
      </span>
      <Button
        {...ACTIONS.approveAll}
        after={` (${calls.length})`}
        offBecause={offBecause}
        onPress={() => controller.decideAll(true)}
      />
      <Button {...ACTIONS.denyAll} offBecause={offBecause} onPress={() => controller.decideAll(false)} />
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
