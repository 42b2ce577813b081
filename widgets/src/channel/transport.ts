/** Carries frames between the runtime and a channel, over a WebSocket or as messages of the widget. Order and loss are the
 * channel's business. */
import type { ClientCommand } from "../protocol";

export interface TransportListener {
  opened(): void;
  frame(text: string): void;
  /** Called once for each lost connection and failed attempt, with the time (ms) of the next attempt. */
  lost(nextTryAt: number): void;
  /** Why the runtime takes no connection, in its own words; null where it does not say. */
  trouble(why: string | null): void;
  /** The runtime does not let this page read, and no more attempt is made before `retryNow`; or it is gone for good. */
  ended(status: "refused" | "gone"): void;
}

export interface Transport {
  /** True where the runtime learns of each connection, and begins it with a `session` event. Else a `resume` asks for it. */
  readonly greets: boolean;
  start(listener: TransportListener): void;
  /** False where there is no connection: nothing was sent. */
  send(command: ClientCommand): boolean;
  retryNow(): void;
  close(): void;
}

type ModelEvent = "msg:custom" | "comm_live_update";

export interface MessageModel {
  on(event: ModelEvent, callback: (message: unknown) => void): void;
  off(event: ModelEvent, callback: (message: unknown) => void): void;
  send(content: unknown): void;
}

/** A page's first message may leave before Jupyter has given it a subshell; it then waits for the cell, which waits for it. */
const ASK_AGAIN_MS = 1_000;

export class KernelTransport implements Transport {
  readonly greets = false;
  private asking: ReturnType<typeof setInterval> | undefined;
  private stop = (): void => undefined;

  constructor(private readonly model: MessageModel) {}

  start(listener: TransportListener): void {
    const { model } = this;
    const receive = (message: unknown): void => {
      clearInterval(this.asking);
      for (const frame of framesOf(message)) listener.frame(frame);
    };
    // Jupyter's widget manager says so when the kernel restarts: the run was in that kernel, and ended with it.
    const gone = (): void => {
      clearInterval(this.asking);
      listener.ended("gone");
    };
    model.on("msg:custom", receive);
    model.on("comm_live_update", gone);
    this.stop = () => {
      model.off("msg:custom", receive);
      model.off("comm_live_update", gone);
    };
    listener.opened();
  }

  send(command: ClientCommand): boolean {
    this.model.send({ command });
    if (command.type === "resume") {
      clearInterval(this.asking);
      this.asking = setInterval(() => this.model.send({ command }), ASK_AGAIN_MS);
    }
    return true;
  }

  retryNow(): void {
    // A kernel's messages have no connection of their own to try again.
  }

  close(): void {
    clearInterval(this.asking);
    this.stop();
  }
}

function framesOf(message: unknown): string[] {
  if (typeof message !== "object" || message === null || !("frames" in message)) return [];
  const frames = message.frames;
  return Array.isArray(frames) ? frames.filter((frame) => typeof frame === "string") : [];
}

/** A lost network may close no socket, and clocks go on until it is noticed: after both of these at the latest. */
const PING_EVERY_MS = 5_000;
/** No frame of any kind for this long after a ping: the line is dead, whatever the browser thinks. */
const ANSWER_WITHIN_MS = 5_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 15_000;
const OPEN = 1;
/** How the server closes the channel of a page that may not read any more (RFC 6455). */
const NOT_PERMITTED = 1008;
const FORBIDDEN = 403;

/** The address of a conversation's channel, from Jupyter's configuration in the page. */
export interface Address {
  readonly url: string;
  /** Where the server says how it is. */
  readonly status: string;
  /** Where the page asks for it in every URL; else cookies open the channel, as they do Jupyter's own. */
  readonly token: string | null;
}

type Page = Pick<Document, "getElementById" | "location">;

/** What Jupyter's page says of its server. */
interface PageConfig {
  readonly baseUrl?: string;
  readonly token?: string;
  readonly appendToken?: boolean | string;
}

export function channelAddress(conversationId: string, page: Page = document): Address {
  const text = page.getElementById("jupyter-config-data")?.textContent;
  const { baseUrl = "/", token = "", appendToken } = JSON.parse(text || "{}") as PageConfig;
  const path = `agent-kernel/api/conversations/${encodeURIComponent(conversationId)}/channel`;
  const url = new URL(baseUrl + path, page.location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const status = new URL(`${baseUrl}agent-kernel/api/status`, page.location.href).href;
  const isAsked = token !== "" && String(appendToken).toLowerCase() === "true";
  return { url: url.href, status, token: isAsked ? token : null };
}

export class SocketTransport implements Transport {
  readonly greets = true;
  private socket: WebSocket | null = null;
  private listener: TransportListener | null = null;
  private failures = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private ping: ReturnType<typeof setInterval> | undefined;
  private deadline: ReturnType<typeof setTimeout> | undefined;
  private readonly wake = (): void => {
    if (this.retry !== undefined) this.retryNow();
  };

  constructor(private readonly address: Address) {}

  start(listener: TransportListener): void {
    this.listener = listener;
    window.addEventListener("online", this.wake);
    this.connect();
  }

  send(command: ClientCommand): boolean {
    if (this.socket?.readyState !== OPEN) return false;
    this.socket.send(JSON.stringify(command));
    return true;
  }

  retryNow(): void {
    if (this.socket !== null) return;
    clearTimeout(this.retry);
    this.connect();
  }

  close(): void {
    window.removeEventListener("online", this.wake);
    this.listener = null;
    clearTimeout(this.retry);
    this.release();
  }

  private connect(): void {
    this.retry = undefined;
    const url = new URL(this.address.url);
    if (this.address.token !== null) url.searchParams.set("token", this.address.token);
    const socket = new WebSocket(url.href);
    this.socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this.failures = 0;
      this.ping = setInterval(() => this.sendPing(), PING_EVERY_MS);
      this.listener?.opened();
    };
    socket.onmessage = (message) => {
      this.clearDeadline();
      if (typeof message.data === "string") this.listener?.frame(message.data);
    };
    socket.onclose = ({ code }) => {
      if (this.socket !== socket) return;
      this.dropped(opened);
      if (code === NOT_PERMITTED) this.refused();
    };
  }

  private sendPing(): void {
    this.deadline ??= setTimeout(() => this.dropped(true), ANSWER_WITHIN_MS);
    this.send({ type: "ping" });
  }

  private clearDeadline(): void {
    clearTimeout(this.deadline);
    this.deadline = undefined;
  }

  private dropped(wasOpen: boolean): void {
    this.release();
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.failures) * (0.75 + Math.random() / 2);
    this.failures += 1;
    this.retry = setTimeout(() => this.connect(), pause);
    this.listener?.lost(Date.now() + pause);
    if (!wasOpen) void this.askWhy();
  }

  private refused(): void {
    clearTimeout(this.retry);
    this.retry = undefined;
    this.listener?.ended("refused");
  }

  /** A browser does not say why a socket was refused, so the server is asked in another way. */
  private async askWhy(): Promise<void> {
    let why: string | null = null;
    try {
      const { token } = this.address;
      const answer = await fetch(
        this.address.status,
        token === null ? {} : { headers: { Authorization: `token ${token}` } },
      );
      if (answer.status === FORBIDDEN) {
        if (this.socket === null) this.refused();
        return;
      }
      const status: unknown = await answer.json();
      const trouble = typeof status === "object" && status !== null && "trouble" in status ? status.trouble : null;
      why = typeof trouble === "string" ? trouble : null;
    } catch {
      // It is out of reach as well.
    }
    this.listener?.trouble(why);
  }

  private release(): void {
    clearInterval(this.ping);
    this.ping = undefined;
    this.clearDeadline();
    const socket = this.socket;
    this.socket = null;
    if (socket === null) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }
}
