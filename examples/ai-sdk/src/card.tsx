/** A call of a tool: what it would do, your answer, and what came of it. */

import type { UseChatHelpers } from "@ai-sdk/react";
import { getToolName } from "ai";
import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { Code, Markdown } from "./code";
import { Icon } from "./icon";
import { stateOf, visible, type Call, type Message, type Said, type State } from "./messages";

type Actions = { chat: UseChatHelpers<Message>; post: (path: string, body: object) => void };
type CardProps = Actions & { call: Call; said: Said };

export function CallCard({ call, said, chat, post }: CardProps) {
  const [state, word] = stateOf(call, said);
  const name = getToolName(call);
  const { language, text } = shown(call, said);
  const isQuestion = name === "ask_user";
  const yourTurn = state === "waiting" || state === "unknown";
  // What policy has allowed shows what came of it when it is opened.
  const byItself = said.decision === undefined && said.approval === undefined;
  const head = (
    <h3>
      <Icon state={state} />
      <code>{name}</code>
      {!yourTurn && <span className="summary">{summaryOf(call, text)}</span>}
      <span className="word">{word}</span>
    </h3>
  );
  const code = text !== "" && !isQuestion && <Code text={text} language={language} />;
  return (
    <section className="card" data-state={state} role="group" aria-label={`${name}: ${word}`}>
      {yourTurn ? (
        <>
          {head}
          {code}
        </>
      ) : (
        <details>
          <summary>{head}</summary>
          {code}
          {byItself && <Outcome call={call} state={state} />}
        </details>
      )}
      {yourTurn && <Warnings said={said} />}
      {state === "waiting" && call.approval && <Decide id={call.approval.id} chat={chat} />}
      {state === "waiting" && isQuestion && <Ask call={call} chat={chat} />}
      {state === "denied" && <p className="line">{deniedBy(call, said)} Nothing ran.</p>}
      {state === "approved" && chat.status === "ready" && call.state === "approval-responded" && !said.decision && (
        <p className="line">Sent as soon as you have answered the other calls.</p>
      )}
      {!byItself && <Outcome call={call} state={state} />}
      {state === "unknown" && <AnswerUnknown said={said} post={post} />}
    </section>
  );
}

/** What a call would do: a diff where it writes a file, the code where it runs some, else its arguments. */
function shown(call: Call, said: Said): { language: string; text: string } {
  const input = (call.input ?? {}) as Record<string, unknown>;
  const preview = said.approval?.preview;
  if (typeof input.code === "string") return { language: "python", text: visible(input.code) };
  if (typeof input.command === "string") return { language: "bash", text: visible(input.command) };
  if (typeof input.question === "string") return { language: "", text: visible(input.question) };
  // A long diff leaves lines out: then the arguments have all that is approved.
  if (preview?.kind === "diff" && preview.left_out === "") {
    return { language: "diff", text: visible(preview.text.trimEnd()) };
  }
  const text = JSON.stringify(input, null, 2);
  return { language: "json", text: text === "{}" ? "" : visible(text) };
}

/** A line that tells calls apart, cut from what they would do. */
function summaryOf(call: Call, text: string): string | undefined {
  const path: unknown = (call.input as { path?: unknown } | undefined)?.path;
  return typeof path === "string" ? visible(path) : text.split("\n").find((line) => line.trim() !== "");
}

/** What the server has found by reading the call, and by looking at the file that it would change. */
function Warnings({ said }: { said: Said }) {
  const { preview, warnings = [] } = said.approval ?? {};
  return (
    <>
      {preview?.facts.map((fact) => (
        <p className="line" key={fact}>
          {visible(fact)}
        </p>
      ))}
      {warnings.map((warning) => (
        <p className="line warning" key={warning.title + warning.detail}>
          <Icon state="warning" />
          <strong>{warning.title}</strong> {visible(warning.detail)}
        </p>
      ))}
    </>
  );
}

function Decide({ id, chat }: { id: string; chat: Actions["chat"] }) {
  const [denies, setDenies] = useState(false);
  const [reason, setReason] = useState("");
  const row = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (denies) row.current?.scrollIntoView({ block: "nearest" });
  }, [denies]);
  const decide = (approved: boolean) => {
    void chat.addToolApprovalResponse({ id, approved, reason: reason.trim() || undefined });
    focusNext(row.current);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape") setDenies(false);
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    decide(false);
  };
  if (!denies) {
    return (
      <div className="row" ref={row}>
        <button className="primary" onClick={() => decide(true)}>
          Approve
        </button>
        <button onClick={() => setDenies(true)}>Deny</button>
        <span className="hint">Approves exactly what is shown.</span>
      </div>
    );
  }
  return (
    <div className="row" ref={row}>
      <label>
        <span>
          <strong>Reason</strong> optional; the model reads it and goes on
        </span>
        <textarea
          rows={2}
          autoFocus
          value={reason}
          onChange={(event) => setReason(event.target.value)}
          onKeyDown={onKey}
        />
      </label>
      <button onClick={() => decide(false)}>Deny</button>
      <button onClick={() => setDenies(false)}>Back</button>
    </div>
  );
}

/** The focus goes on to the next call that waits, else to the field for messages. */
function focusNext(from: HTMLElement | null): void {
  const here = from?.closest(".card");
  const waiting = [...document.querySelectorAll<HTMLElement>(".card[data-state=waiting]")].filter(
    (one) => one !== here,
  );
  (waiting[0]?.querySelector("button") ?? document.querySelector<HTMLElement>(".composer textarea"))?.focus();
}

/** A question of the model, which this page answers in place of a tool. */
function Ask({ call, chat }: { call: Call; chat: Actions["chat"] }) {
  const { question, choices } = call.input as { question: string; choices?: string[] };
  const [text, setText] = useState("");
  const answer = (output: string) =>
    void chat.addToolOutput({ tool: getToolName(call), toolCallId: call.toolCallId, output });
  return (
    <form
      className="row"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim() !== "") answer(text.trim());
      }}
    >
      <p>{visible(question)}</p>
      {choices?.map((choice) => (
        <button type="button" key={choice} onClick={() => answer(choice)}>
          {visible(choice)}
        </button>
      ))}
      <label>
        <span className="sr">Your answer</span>
        <textarea rows={1} value={text} onChange={(event) => setText(event.target.value)} />
      </label>
      <button className="primary">Send</button>
    </form>
  );
}

/** What a call has shown: text as in a notebook, and its error. Pictures are parts of the message. */
function Outcome({ call, state }: { call: Call; state: State }) {
  if (call.state === "output-error" && state === "failed") return <Text text={call.errorText} bad />;
  if (call.state === "output-error") return <p className="line">{call.errorText}</p>;
  if (call.state !== "output-available") return null;
  const { text, outputs } = (typeof call.output === "object" ? call.output : {}) as {
    text?: string;
    outputs?: Output[];
  };
  if (!outputs?.length) return <Text text={text ?? String(call.output)} />;
  return outputs.map((output, index) => <OneOutput key={index} output={output} />);
}

type Output = { output_type: string; name?: string; text?: string; evalue?: string; data?: Record<string, unknown> };

function OneOutput({ output }: { output: Output }) {
  if (output.output_type === "stream") return <Text text={output.text ?? ""} />;
  if (output.output_type === "error") return <Text text={output.evalue ?? ""} bad />;
  const markdown = output.data?.["text/markdown"];
  if (typeof markdown === "string") return <Markdown text={markdown} />;
  const text = String(output.data?.["text/plain"] ?? "");
  return /^<.*>$/.test(text) ? null : <Text text={text} />; // such as <Figure size 600x400>: its picture follows
}

function Text({ text, bad = false }: { text: string; bad?: boolean }) {
  const plain = text.replace(/\u001b\[[\d;]*m/g, "").trimEnd();
  if (plain === "") return null;
  return (
    <pre className={bad ? "output bad" : "output"} tabIndex={0} aria-label={bad ? "Error" : "Output"}>
      {plain}
    </pre>
  );
}

/** Nobody knows how a call has ended: the server was gone while it ran. */
function AnswerUnknown({ said, post }: { said: Said; post: Actions["post"] }) {
  const id = said["unknown-outcome"]?.approvalId;
  return (
    <div className="row">
      <button onClick={() => post(`approvals/${id}/outcome`, { answer: "retry" })}>Run again</button>
      <button onClick={() => post(`approvals/${id}/outcome`, { answer: "continue" })}>Continue</button>
      <span className="hint">Run again asks you first. Continue tells the model that it is unknown.</span>
    </div>
  );
}

function deniedBy(call: Call, said: Said): string {
  const reason = said.decision?.reason ?? call.approval?.reason;
  const by = said.decision?.by === "policy" ? "By this site’s policy" : "By you";
  return reason ? `${by}: “${visible(reason)}”` : `${by}.`;
}
