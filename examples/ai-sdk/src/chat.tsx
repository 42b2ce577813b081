/** The chat: `useChat` against the Jupyter server, and nothing between them. */

import { useChat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";
import { useEffect, useMemo, useRef, useState } from "react";
import { Markdown } from "./code";
import { Composer, Suggestions } from "./composer";
import { useOthers } from "./live";
import { Answer } from "./message";
import { endedIn, mayStream, waitingIn, type Message } from "./messages";
import { address, call, explain, headers, type Connection } from "./server";

export function Chat(given: { connection: Connection; chatId: string; messages: Message[] }) {
  const { connection, chatId } = given;
  const transport = useMemo(
    () =>
      new DefaultChatTransport<Message>({
        api: address(connection, "ai-sdk/chat"),
        headers: headers(connection),
        body: { notebook_path: connection.notebook, model: connection.model },
      }),
    [connection],
  );
  const chat = useChat<Message>({
    id: chatId,
    messages: given.messages,
    resume: mayStream(given.messages.at(-1)),
    transport,
    sendAutomaticallyWhen: (state) =>
      lastAssistantMessageIsCompleteWithApprovalResponses(state) || lastAssistantMessageIsCompleteWithToolCalls(state),
  });
  useOthers(connection, chat);

  const [failure, setFailure] = useState<Error>();
  /** POST to a route beside the chat's own: what it changes comes back as events. */
  const post = (path: string, body: object) =>
    void call(connection, path, body).then(() => setFailure(undefined), setFailure);
  const last = chat.messages.at(-1);
  const streams = chat.status === "submitted" || chat.status === "streaming";
  const waiting = streams ? [] : waitingIn(last);
  const runId = last?.role === "assistant" ? last.metadata?.runId : undefined;
  const error = chat.error ?? failure;

  const stop = () => post(`conversations/${chatId}/runs/${runId}/cancel`, {});
  const tryAgain = () => {
    setFailure(undefined);
    if (chat.error === undefined) return;
    const unsent = last?.role === "user" || lastAssistantMessageIsCompleteWithApprovalResponses(chat);
    // What may not have arrived is sent once more, as it is: the server takes it once. Else the answer was cut off, and
    // goes on.
    if (endedIn(chat.error, last)) void chat.regenerate();
    else void (unsent ? chat.sendMessage() : chat.resumeStream());
  };
  const end = useEndInView(chat.messages);

  return (
    <>
      <header>
        <h1>{connection.notebook}</h1>
        {connection.model === "demo" && <span className="tag">Recorded demo: no model is called</span>}
        <a href={`${connection.server}/lab/tree/${connection.notebook}`} target="_blank" rel="noreferrer">
          Open the notebook
        </a>
        <a className="button" href="?">
          New chat
        </a>
      </header>
      <main>
        {chat.messages.length === 0 && <Suggestions onPick={(text) => void chat.sendMessage({ text })} />}
        {chat.messages.map((message) =>
          message.role === "user" ? (
            <article className="asked" aria-label="You" key={message.id}>
              {message.parts.map((part, index) => part.type === "text" && <Markdown key={index} text={part.text} />)}
            </article>
          ) : (
            <Answer key={message.id} message={message} chat={chat} post={post} streams={streams && message === last} />
          ),
        )}
        {chat.status === "submitted" && last?.role === "user" && <p className="thinking">Thinking</p>}
        {error && (
          <div className="notice bad" role="alert">
            <p>{explain(error)}</p>
            <button onClick={tryAgain}>{chat.error ? "Try again" : "Close"}</button>
          </div>
        )}
        {!streams && !error && waiting.length === 0 && last?.role === "assistant" && (
          <button className="quiet" onClick={() => void chat.regenerate()}>
            Ask again
          </button>
        )}
        <div className="end" ref={end} />
      </main>
      <p className="sr" role="status">
        {streams ? "Running" : waiting.length > 0 ? `Waiting for you: ${waiting.join(", ")}` : last ? "Answered" : ""}
      </p>
      <Composer
        streams={streams}
        onSend={(text) => void chat.sendMessage({ text })}
        onStop={runId !== undefined && (streams || waiting.length > 0) ? stop : undefined}
      />
    </>
  );
}

/** Keeps the end in view while it grows, unless the reader has scrolled up. */
function useEndInView(messages: Message[]) {
  const end = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    const look = () => {
      const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
      follows.current = scrollHeight - clientHeight - scrollTop < 80;
    };
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, []);
  useEffect(() => {
    if (follows.current) end.current?.scrollIntoView({ block: "end" });
  }, [messages]);
  return end;
}
