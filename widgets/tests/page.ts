/** A page with the real client in it. Only the socket is played: it has the browser's API and a runtime behind it. */
import { afterEach, beforeAll, beforeEach, vi } from "vitest";
import client from "../src/index";
import { editing } from "../src/card/edit";
import type { WidgetManager } from "../src/card/notebookRenderers";
import type { ClientCommand, ServerEvent } from "../src/protocol";
import { highlighting } from "../src/text/code";
import { Recording } from "./frames.js";

type Options = NonNullable<ConstructorParameters<typeof Recording>[1]>;

const ENVELOPE = {
  conversation_id: "",
  run_id: null,
  command_id: null,
  timestamp: "",
  tool_call_id: null,
  details: {},
};

export class PlayedSocket {
  static all: PlayedSocket[] = [];
  static refuse = false;
  readyState = 0;
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  /** What was sent, without the ids of the commands, which are in `ids`. */
  readonly sent: ClientCommand[] = [];
  readonly ids: string[] = [];
  private cursor: number | null = null;

  constructor(readonly url: string) {
    PlayedSocket.all.push(this);
    setTimeout(() => (PlayedSocket.refuse ? this.drop() : this.open()), 1);
  }

  static get last(): PlayedSocket {
    const socket = PlayedSocket.all.at(-1);
    if (!socket) throw new Error("no socket was opened");
    return socket;
  }

  static get sent(): ClientCommand[] {
    return PlayedSocket.all.flatMap((socket) => socket.sent);
  }

  open(): void {
    if (this.readyState !== 0) return;
    this.readyState = 1;
    this.onopen?.();
    if (runtime.recording)
      this.say({ ...runtime.recording.session(), pending: runtime.pending.map((id) => ({ approval_id: id })) });
  }

  say(event: object): void {
    this.onmessage?.({ data: JSON.stringify({ ...ENVELOPE, ...event }) });
  }

  send(text: string): void {
    const { id, ...command } = JSON.parse(text) as ClientCommand;
    this.sent.push(command);
    if (typeof id === "string") this.ids.push(id);
    if (command.type === "ping") this.say({ type: "pong", seq: 0 });
    if (command.type === "resume") {
      this.cursor = command.last_seq;
      this.catchUp();
    }
  }

  /** Send what was recorded since. */
  catchUp(): void {
    if (this.cursor === null || this.readyState !== 1) return;
    const frames = (runtime.recording?.frames ?? []).slice(this.cursor);
    this.cursor += frames.length;
    for (const frame of frames) this.say(frame);
  }

  /** The line is lost, or the server closes it with another code. */
  drop(code = 1006): void {
    this.readyState = 3;
    this.onclose?.({ code });
  }

  close(): void {
    this.readyState = 3;
  }
}

export const runtime: { recording: Recording | null; pending: string[]; trouble: string | null; status: number } = {
  recording: null,
  pending: [],
  trouble: null,
  status: 200,
};

/** What the notebook around the views can draw, where it can. */
export const notebook: { manager: WidgetManager | undefined } = { manager: undefined };

let counter = 0;
const disposers: (() => void)[] = [];

/** As a page is that has loaded them before; `parts.test.ts` has one that has not. */
export async function loadParts(): Promise<void> {
  await Promise.all([editing, highlighting].map((part) => part.fetch()));
}

export function usePage(): void {
  beforeAll(loadParts);
  beforeEach(() => {
    vi.useFakeTimers({ now: Date.parse("2026-11-20T14:06:00Z") });
    vi.stubGlobal("WebSocket", PlayedSocket);
    vi.stubGlobal("fetch", () =>
      Promise.resolve(Response.json({ trouble: runtime.trouble }, { status: runtime.status })),
    );
    PlayedSocket.all = [];
    PlayedSocket.refuse = false;
    runtime.pending = [];
    runtime.trouble = null;
    runtime.status = 200;
    notebook.manager = undefined;
  });
  afterEach(async () => {
    closeViews();
    await vi.advanceTimersByTimeAsync(5_000);
    vi.useRealTimers();
    vi.unstubAllGlobals();
    document.body.replaceChildren();
  });
}

/** The outputs are taken away. */
export function closeViews(): void {
  for (const dispose of disposers.splice(0)) dispose();
}

/** Start a run and show it. */
export async function show(
  build: (run: Recording) => void = () => undefined,
  options: Options = {},
): Promise<HTMLElement> {
  const recording = new Recording(`conv${(counter += 1)}`, { age: 5_000, ...options });
  build(recording);
  runtime.recording = recording;
  const root = view(recording);
  await settle();
  return root;
}

/** The widget of a run. */
function modelOf(recording: Recording, run_id: string, transport: string) {
  const unserved = transport === "kernel";
  const traits = { conversation_id: recording.conversation, run_id, prompt: "prompt", transport, unserved };
  return {
    get: <Name extends keyof typeof traits>(name: Name) => traits[name],
    on: (_event: string, _callback: (message: unknown) => void): void => undefined,
    off: () => undefined,
    send: (_content: unknown): void => undefined,
    widget_manager: notebook.manager,
  };
}

export function view(recording: Recording, run = recording.run): HTMLElement {
  const root = document.body.appendChild(document.createElement("div"));
  disposers.push(client.render({ model: modelOf(recording, run, "server"), el: root }));
  return root;
}

/** A run whose runtime lives in the kernel: frames come as messages of the widget. */
export interface KernelView {
  readonly root: HTMLElement;
  readonly sent: unknown[];
  deliver(from: Recording): void;
  say(...frames: object[]): void;
  restart(): void;
  close(): void;
}

export function kernelView(recording: Recording): KernelView {
  const sent: unknown[] = [];
  const callbacks = new Map<string, (message: unknown) => void>();
  const model = {
    ...modelOf(recording, recording.run, "kernel"),
    on: (event: string, callback: (message: unknown) => void) => void callbacks.set(event, callback),
    send: (content: unknown) => void sent.push(content),
  };
  const root = document.body.appendChild(document.createElement("div"));
  const stop = client.initialize({ model });
  const dispose = client.render({ model, el: root });
  return {
    sent,
    root,
    deliver: (from) => callbacks.get("msg:custom")?.({ frames: from.frames.map((frame) => JSON.stringify(frame)) }),
    say: (...frames) => {
      const texts = frames.map((frame) => JSON.stringify({ ...ENVELOPE, ...frame }));
      callbacks.get("msg:custom")?.({ frames: texts });
    },
    restart: () => callbacks.get("comm_live_update")?.(undefined),
    close: () => (dispose(), stop?.()),
  };
}

/** The session of a runtime whose snapshot has an answer. */
export function sessionWith(recording: Recording, content: string, message_id = "m"): ReturnType<Recording["session"]> {
  const session = recording.session();
  (session.snapshot.messages as unknown[]).push(said(recording.run, content, message_id));
  return session;
}

/** The server refuses what the page has sent last. */
export async function refuse(code: string, message: string, more: object = {}, ms = 120): Promise<void> {
  const command_id = PlayedSocket.last.ids.at(-1);
  PlayedSocket.last.say({ type: "error", seq: runtime.recording?.frames.length, command_id, code, message, ...more });
  await settle(ms);
}

export async function loseLine(ms = 120): Promise<void> {
  PlayedSocket.refuse = true;
  PlayedSocket.last.drop();
  await settle(ms);
}

/** A message of the model, as snapshots have it. */
export function said(run_id: string, content: string, message_id = content): object {
  const none = { tool_calls: [] as string[], tool_call_id: null, reasoning: "" };
  return { message_id, run_id, role: "assistant", content, ...none };
}

/** A call that a person approved, as snapshots have it. */
export function callView(id: string, run_id: string, more: object = {}): object {
  const none = Object.fromEntries(
    ["reason", "decided_by", "preview", "decided_at", "started_at", "duration_ms", "output_file", "undo", "place"]
      .concat("waiting_behind", "unknown_answer", "cached_at")
      .map((name) => [name, null]),
  );
  return {
    ...none,
    ...{ tool_call_id: id, approval_id: `apr_${id}`, conversation_id: "c", run_id, tool_name: "run_python" },
    ...{ tool_input: '{"code":"1"}', digest: "d", state: "success", by: "user", result: "", edited: false },
    ...{ recorded: false, read_only: false, truncated: false, undone: false, seen_images: 0 },
    ...{ warnings: [], scopes: [], rules: [], outputs: [], created_at: "", ended_at: "x" },
    ...more,
  };
}

export async function fill(field: HTMLInputElement | HTMLTextAreaElement, text: string): Promise<void> {
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await settle();
}

/** The runtime commits more events, and the page shows them. */
export async function happens(build: (run: Recording) => void): Promise<void> {
  if (runtime.recording) build(runtime.recording);
  PlayedSocket.last.catchUp();
  await settle();
}

export async function settle(ms = 120): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

/** All that the model has said, as it is shown. */
export function answer(root: HTMLElement): string {
  return [...root.querySelectorAll("[data-role=answer]")].map((one) => one.textContent).join("\n");
}

export function accessibleName(element: Element): string {
  const label = element.getAttribute("aria-label");
  if (label !== null) return label;
  const copy = element.cloneNode(true) as Element;
  for (const hidden of copy.querySelectorAll("[aria-hidden=true]")) hidden.remove();
  return (copy.textContent ?? "").trim();
}

export function card(root: HTMLElement, id: string): HTMLElement {
  const found = [...root.querySelectorAll<HTMLElement>("[role=group][data-tool-call-id]")].find(
    (one) => one.dataset["toolCallId"] === id,
  );
  if (!found) throw new Error(`no card ${id}`);
  return found;
}

export function buttons(place: Element): string[] {
  return [...place.querySelectorAll("button")]
    .filter((b) => !b.matches(".ak-head, .ak-fold, .ak-badge, .ak-copy"))
    .map(accessibleName);
}

export function button(place: Element, name: string): HTMLButtonElement {
  const found = [...place.querySelectorAll("button")].find((one) => accessibleName(one) === name);
  if (!found) throw new Error(`no button ${name}; there are ${buttons(place).join(", ")}`);
  return found;
}

export async function press(place: Element, name: string): Promise<void> {
  button(place, name).click();
  await settle();
}

export async function key(target: Element, name: string, more: KeyboardEventInit = {}): Promise<KeyboardEvent> {
  const event = new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...more });
  target.dispatchEvent(event);
  await settle();
  return event;
}

export function decisions(): Extract<ClientCommand, { type: "approval_response" }>[] {
  return PlayedSocket.sent.filter((command) => command.type === "approval_response");
}

export function events(recording: Recording): ServerEvent[] {
  return recording.frames as unknown as ServerEvent[];
}

export { Recording };
