/** Starts the page: finds the server, loads the chat's messages, and shows them. */

import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { Chat } from "./chat";
import type { Message } from "./messages";
import { call, explain, findChat, findConnection, Refused, type Connection } from "./server";
import "./styles.css";

function Page({ connection, chatId, isNew }: { connection: Connection; chatId: string; isNew: boolean }) {
  const [messages, setMessages] = useState<Message[] | undefined>(isNew ? [] : undefined);
  const [error, setError] = useState<Error>();
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    if (isNew) return;
    call<Message[]>(connection, `ai-sdk/chat/${chatId}`)
      .catch((refused: Error) => {
        if (refused instanceof Refused && refused.status === 404) return []; // nothing was asked yet
        throw refused;
      })
      .then(setMessages)
      .catch(setError);
  }, [connection, chatId, isNew, attempt]);

  if (messages !== undefined) return <Chat connection={connection} chatId={chatId} messages={messages} />;
  if (error === undefined) return null;
  const again = () => {
    setError(undefined);
    setAttempt(attempt + 1);
  };
  return (
    <main className="alone">
      <div className="notice bad" role="alert">
        <p>{explain(error)}</p>
        <button onClick={again}>Try again</button>
      </div>
    </main>
  );
}

function Unconnected() {
  return (
    <main className="alone">
      <p>
        This page needs a Jupyter server. Run <code>npm start</code>, and open the address that it prints.
      </p>
    </main>
  );
}

const connection = findConnection();
createRoot(document.getElementById("root")!).render(
  <StrictMode>{connection ? <Page connection={connection} {...findChat()} /> : <Unconnected />}</StrictMode>,
);
