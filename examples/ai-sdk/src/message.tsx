/** An answer: its parts in the model's order. */

import type { UseChatHelpers } from "@ai-sdk/react";
import { isToolUIPart } from "ai";
import { CallCard } from "./card";
import { Markdown } from "./code";
import { saidOf, type Data, type Message } from "./messages";

type AnswerProps = {
  message: Message;
  chat: UseChatHelpers<Message>;
  post: (path: string, body: object) => void;
  /** Whether it is being written. */
  streams: boolean;
};

export function Answer({ message, chat, post, streams }: AnswerProps) {
  return (
    <article className="answer" aria-label="Agent" aria-busy={streams}>
      {message.parts.map((part, index) => {
        if (isToolUIPart(part)) {
          return <CallCard key={part.toolCallId} call={part} said={saidOf(message, part)} chat={chat} post={post} />;
        }
        switch (part.type) {
          case "text":
            return <Markdown key={index} text={part.text} streams={part.state === "streaming"} />;
          case "reasoning":
            return (
              <details key={index} className="reasoning">
                <summary>Reasoning</summary>
                <Markdown text={part.text} streams={part.state === "streaming"} />
              </details>
            );
          case "file":
            return part.mediaType.startsWith("image/") ? (
              <img key={index} src={part.url} alt="A picture that a call has drawn" />
            ) : null;
          case "data-pause":
            return part.data.over ? null : <Pause key={index} pause={part.data} chatId={chat.id} post={post} />;
          case "data-delay":
            return part.data.over ? null : <Delay key={index} delay={part.data} chatId={chat.id} post={post} />;
          case "data-notice":
            return (
              <p key={index} className="notice">
                {part.data.text}
              </p>
            );
          default:
            return null; // the beginning of a step; what the cards say
        }
      })}
    </article>
  );
}

/** What is added to each limit that a run can reach. */
const MORE = { tokens: 50_000, usd: 1, tool_calls: 20, steps: 20, seconds: 600 };

/** The model's service limits, is overloaded or loads the model, and is asked again. */
function Delay({ delay, chatId, post }: { delay: Data["delay"]; chatId: string; post: AnswerProps["post"] }) {
  const until = delay.until && new Date(delay.until).toLocaleTimeString();
  return (
    <div className="notice turn" role="group" aria-label="The model's service is asked again">
      <p>
        {delay.cause} {until && `Next try at ${until}.`}
      </p>
      <button onClick={() => post(`conversations/${chatId}/runs/${delay.runId}/try-now`, {})}>Try now</button>
    </div>
  );
}

/** The run has reached its budget, or repeats itself: it goes on when somebody says so. */
function Pause({ pause, chatId, post }: { pause: Data["pause"]; chatId: string; post: AnswerProps["post"] }) {
  const reached = pause.reached ?? [];
  const add = Object.fromEntries(reached.map((limit) => [limit, MORE[limit]]));
  const more = reached.map((limit) => `${MORE[limit].toLocaleString("en")} ${limit.replace("_", " ")}`).join(" and ");
  const goOn = () => post(`conversations/${chatId}/runs/${pause.runId}/budget`, { pause_id: pause.pauseId, add });
  return (
    <div className="notice turn" role="group" aria-label="The run is paused">
      <p>
        <strong>{pause.repeated ? `The agent repeats itself: ${pause.repeated}.` : "Budget reached."}</strong> The run
        is paused before its next model call. Nothing is lost.
      </p>
      <button className="primary" onClick={goOn}>
        {more ? `Add ${more}` : "Continue"}
      </button>
    </div>
  );
}
