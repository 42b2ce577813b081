/** The run ahead of a queued one, which can be shown and answered here, or stopped. */
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { asksWhatNow, callsInOrder, needsYou, pauseOf, type RunState } from "../state";
import { oneLine } from "../text/format";
import { visible } from "../text/invisible";
import { Button, PressedButton } from "../ui/button";
import { Icon } from "../ui/icon";

const PROMPT_CHARACTERS = 60;

interface Props {
  /** The runs before this one, the one that goes on first. */
  ahead: readonly RunState[];
  shown: boolean;
  onShow: () => void;
  onStop: (runId: string) => void;
}

export function RunAheadBar({ ahead, shown, onShow, onStop }: Props): JSX.Element | null {
  const [stopped, setStopped] = useState("");
  const first = ahead[0];
  if (first === undefined) return null;
  const prompt = first.run?.prompt ?? "";
  const more = ahead.length - 1;
  const stop = (): void => {
    setStopped(first.runId);
    onStop(first.runId);
  };
  return (
    <div class="ak-bar" role="status" data-role="ahead">
      <Icon name="clock" tone="ak-calm" />
      <span class="ak-grow">
        Behind <i title={visible(prompt)}>{visible(oneLine(prompt, PROMPT_CHARACTERS))}</i>, which {standing(first)}
        {more > 0 && `, and ${more} more`}.
      </span>
      <Button name={shown ? "Hide" : "Show here"} small expanded={shown} onPress={onShow} />
      {stopped === first.runId ? (
        <PressedButton name="Stopping it…" />
      ) : (
        <Button name="Stop it and go on" small onPress={stop} />
      )}
    </div>
  );
}

/** The cards of the run ahead, live. `run` makes its view, once for each run. */
export function RunAheadView({ runId, run }: { runId: string; run: (runId: string) => JSX.Element }): JSX.Element {
  return <div class="ak-ahead">{useMemo(() => run(runId), [runId])}</div>;
}

function standing(state: RunState): string {
  const asks = callsInOrder(state).some((call) => needsYou(call) || asksWhatNow(call, state));
  if (asks || pauseOf(state) !== null) return "waits for you";
  return state.run?.status === "queued" ? "is about to begin" : "is running";
}
