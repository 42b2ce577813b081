/** Announces to screen readers: changes of state, never tokens or output. */
import { callOf, callsInOrder, delayOf, pauseOf, runEnded, type Call, type RunState } from "../state";
import { CALL_STATES } from "../card/looks";
import { visible } from "../text/invisible";
import { delayWords, pausedWords } from "../text/words";

const RUN_WORDS = {
  complete: "The agent has answered.",
  cancelled: "The run was stopped.",
  error: "The run failed.",
} as const;

/** `now` is the runtime's present moment in ms. */
export function announcement(before: RunState, after: RunState, now: number): string | null {
  const said = callsInOrder(after).flatMap((call) => callAnnouncement(callOf(before, call.id), call));
  const status = after.run?.status;
  if (runEnded(after) && !runEnded(before) && status !== undefined && status in RUN_WORDS) {
    said.push(RUN_WORDS[status as keyof typeof RUN_WORDS]);
  }
  const pause = pauseOf(after);
  if (pause !== null && pauseOf(before) === null)
    said.push(`${pausedWords(pause)}. The run is paused and waits for you.`);
  const delay = delayOf(after);
  if (delay !== null && delay.since !== delayOf(before)?.since) {
    const { what, when } = delayWords(delay, now);
    said.push(`${what}, ${when}.`);
  }
  return said.length === 0 ? null : said.join(" ");
}

function callAnnouncement(before: Call | undefined, call: Call): string[] {
  if (before === call || before?.state === call.state || call.state === "proposed" || call.state === "approved")
    return [];
  const name = visible(call.name);
  if (call.state === "awaiting_approval") return [`${name} is waiting for you.`];
  if (call.state === "executing")
    return [call.name === "ask_user" ? "The agent asks you a question." : `${name} is running.`];
  return [`${name}: ${CALL_STATES[call.state].word}.`];
}
