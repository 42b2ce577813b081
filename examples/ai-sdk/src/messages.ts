/** What the server's messages have beside the AI SDK's own parts, and what a page reads from them. */

import { getToolName, isToolUIPart, type DynamicToolUIPart, type ToolUIPart, type UIMessage } from "ai";

type OfCall = { toolCallId: string; toolName: string };
type Limit = "tokens" | "usd" | "tool_calls" | "steps" | "seconds";
type Preview = { kind: "code" | "diff" | "text"; text: string; facts: string[]; left_out: string };

/** The types of the `data-...` parts. docs/ai-sdk.md says when each is sent. */
export type Data = {
  approval: OfCall & { warnings: { title: string; detail: string }[]; preview: Preview | null };
  decision: OfCall & {
    approved: boolean;
    reason: string | null;
    edited: boolean;
    by: string;
    decidedBy: string | null;
  };
  "unknown-outcome": OfCall & { approvalId?: string; answer?: "continue" | "retry" };
  pause: { runId: string; pauseId?: string; reached?: Limit[]; repeated?: string; over: boolean };
  delay: { runId: string; cause?: string; until?: string | null; over: boolean };
  notice: { text: string };
};
export type Metadata = { runId?: string };
export type Message = UIMessage<Metadata, Data>;
export type Call = ToolUIPart | DynamicToolUIPart;

/** What is said of a call beside its own part. */
export type Said = Partial<Pick<Data, "approval" | "decision" | "unknown-outcome">>;

export function saidOf(message: Message, call: Call): Said {
  const said: Said = {};
  for (const part of message.parts) {
    if ("data" in part && "toolCallId" in part.data && part.data.toolCallId === call.toolCallId) {
      Object.assign(said, { [part.type.slice("data-".length)]: part.data });
    }
  }
  return said;
}

export type State =
  "preparing" | "waiting" | "approved" | "running" | "done" | "failed" | "ended" | "denied" | "unknown";

/** A call's state, and its word. */
export function stateOf(call: Call, said: Said): [State, string] {
  switch (call.state) {
    case "input-streaming":
      return ["preparing", "Preparing"];
    case "input-available":
      return getToolName(call) === "ask_user" ? ["waiting", "Waiting for your answer"] : ["running", "Running"];
    case "approval-requested":
    case "approval-responded": {
      // After a reload, or where the notebook decided, the decision is what stands.
      const approved = said.decision?.approved ?? call.approval.approved;
      if (approved === undefined) return ["waiting", "Waiting for you"];
      return approved ? ["approved", "Approved"] : ["denied", "Denied"];
    }
    case "output-available":
      return call.preliminary ? ["running", "Running"] : ["done", "Done"];
    case "output-denied":
      return ["denied", "Denied"];
    case "output-error": {
      if (said["unknown-outcome"] && !said["unknown-outcome"].answer) return ["unknown", "Outcome unknown"];
      // Calls that did not fail, but ended in another way, say so in their first words.
      const [word] = /^(Cancelled|Replaced|Expired|Outcome unknown)/.exec(call.errorText) ?? [];
      return word === undefined ? ["failed", "Failed"] : ["ended", word];
    }
  }
}

/** What waits for a person in an answer: names of tools, or of what else is asked. */
export function waitingIn(message: Message | undefined): string[] {
  const found: string[] = [];
  for (const part of message?.role === "assistant" ? message.parts : []) {
    if (isToolUIPart(part)) {
      const [state] = stateOf(part, saidOf(message!, part));
      if (state === "waiting" || state === "unknown") found.push(getToolName(part));
    } else if (part.type === "data-pause" && !part.data.over) {
      found.push("paused run");
    }
  }
  return found;
}

/**
 * Whether something of an answer may be under way, so that there is a stream to resume. To ask for one where all that is
 * open waits for a person would do harm: when nothing is found, `useChat` says "ready", also while a decision that was
 * made in the meantime is being sent.
 */
export function mayStream(message: Message | undefined): boolean {
  const isRunning = (part: Message["parts"][number]) => {
    if (!isToolUIPart(part)) return false;
    const said = saidOf(message!, part);
    const [state] = stateOf(part, said);
    // What only this page has approved is sent with the answers to the other calls.
    return state === "preparing" || state === "running" || (state === "approved" && said.decision !== undefined);
  };
  return waitingIn(message).length === 0 || message!.parts.some(isRunning);
}

/** Whether an answer has ended in this error, which its last notice says too: nothing of it streams any more. */
export function endedIn(error: Error | undefined, message: Message | undefined): boolean {
  const last = message?.parts.at(-1);
  return last?.type === "data-notice" && last.data.text === error?.message;
}

/**
 * The server's messages, with the answers that only this page has: an approval is sent when all calls of its step are
 * answered.
 */
export function keepAnswers(loaded: Message[], shown: Message[]): Message[] {
  const answered = new Map<string, Message["parts"][number]>();
  for (const part of shown.at(-1)?.parts ?? []) {
    if (isToolUIPart(part) && part.state === "approval-responded") answered.set(part.toolCallId, part);
  }
  const keep = (part: Message["parts"][number]) =>
    isToolUIPart(part) && part.state === "approval-requested" ? (answered.get(part.toolCallId) ?? part) : part;
  return loaded.map((message) => ({ ...message, parts: message.parts.map(keep) }));
}

/** Characters that can't be seen, or that change the order of what is seen, as `U+202E`: what you approve is all there. */
export function visible(text: string): string {
  return text.replace(
    /(?![\t\n ])[\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu,
    (one) => `U+${one.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`,
  );
}
