/** Keeps a chat as the conversation is: somebody may decide in the notebook, or in another tab. */

import type { UseChatHelpers } from "@ai-sdk/react";
import { lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { EventSourceParserStream } from "eventsource-parser/stream";
import { useEffect, useEffectEvent } from "react";
import { endedIn, keepAnswers, mayStream, type Message } from "./messages";
import { address, call, headers, type Connection } from "./server";

const AGAIN_AFTER = 2_000;
const TOGETHER = 150;

/**
 * Listens to the conversation's events, and loads the messages whenever something happens while no answer streams. A
 * page whose calls are decided nowhere else needs none of this.
 */
export function useOthers(connection: Connection, chat: UseChatHelpers<Message>): void {
  const streams = chat.status === "submitted" || chat.status === "streaming";
  const catchUp = useEffectEvent(async () => {
    if (!streams) await take(await call<Message[]>(connection, `ai-sdk/chat/${chat.id}`));
  });
  const take = useEffectEvent(async (loaded: Message[]) => {
    if (streams) return; // since they were asked for: the stream says it all
    const messages = keepAnswers(loaded, chat.messages);
    chat.setMessages(messages);
    if (endedIn(chat.error, messages.at(-1))) return; // to resume it would only take the error away
    if (lastAssistantMessageIsCompleteWithApprovalResponses({ messages })) await chat.sendMessage();
    else if (mayStream(messages.at(-1))) await chat.resumeStream();
  });
  const exists = chat.messages.some((message) => message.role === "assistant");
  useEffect(() => {
    if (!exists) return;
    const left = new AbortController();
    let soon: ReturnType<typeof setTimeout> | undefined;
    const heard = () => {
      clearTimeout(soon);
      soon = setTimeout(() => void catchUp().catch(() => undefined), TOGETHER); // the next event tries again
    };
    void listen(connection, chat.id, left.signal, heard);
    return () => {
      left.abort();
      clearTimeout(soon);
    };
  }, [exists, connection, chat.id]);
}

/** Call `heard` for each event until the page is left. `EventSource` would do, if it could send the token in a header. */
async function listen(connection: Connection, id: string, signal: AbortSignal, heard: () => void): Promise<void> {
  while (!signal.aborted) {
    try {
      const url = address(connection, `conversations/${id}/events`);
      const response = await fetch(url, { headers: headers(connection), signal });
      if (!response.ok || response.body === null) return;
      const events = response.body
        .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
        .pipeThrough(new EventSourceParserStream())
        .getReader();
      while (!(await events.read()).done) heard();
    } catch {
      // The server has gone, or the page is left.
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_AFTER));
  }
}
