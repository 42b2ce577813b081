/** Why a run does not go on at the moment: its model's service is asked again, at a time that need not be waited for. */
import type { JSX } from "preact";
import { delayWords } from "../text/words";
import { SHARED } from "../text/words.gen";
import { Button } from "../ui/button";
import { Icon } from "../ui/icon";
import { useSeconds } from "../ui/seconds";
import { visible } from "../text/invisible";
import { Message } from "../ui/untrustedText";
import type { RunController } from "./controller";

export function DelayBar({ controller }: { controller: RunController }): JSX.Element | null {
  const { store } = controller;
  const delay = store.delay.value;
  useSeconds(delay !== null);
  if (delay === null) return null;
  const { what, when, waits } = delayWords(delay, controller.now());
  // The words change every second: they are read out once, by the announcer.
  return (
    <div class="ak-bar" role="group" aria-label={what} data-delay={delay.kind}>
      <Icon name="clock" tone="ak-calm" />
      <span class="ak-grow">
        <b>{what}</b>
        <span class="ak-num">, {when}.</span>{" "}
        <span class="ak-muted">
          <Message text={visible(delay.cause)} />
        </span>
      </span>
      {waits && <Button name={SHARED.actions.tryNow} small onPress={() => controller.tryNow(delay)} />}
      <Button name={SHARED.actions.stop} small icon={<Icon name="stop" />} onPress={() => controller.stop()} />
    </div>
  );
}
