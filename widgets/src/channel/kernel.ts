/** The embedded host: frames travel as custom messages of the widget that shows the run. */
import type { ClientCommand } from "../protocol";
import type { Transport, TransportListener } from "./transport";

type ModelEvent = "msg:custom" | "comm_live_update";

export interface MessageModel {
  on(event: ModelEvent, callback: (message: unknown) => void): void;
  off(event: ModelEvent, callback: (message: unknown) => void): void;
  send(content: unknown): void;
}

/** A page's first message may leave before Jupyter has given it a subshell; it then waits for the cell, which waits for it. */
const ASK_AGAIN_MS = 1_000;

export class KernelTransport implements Transport {
  readonly receives = "usually";
  readonly greets = false;
  private asking: ReturnType<typeof setInterval> | undefined;
  private receive: ((message: unknown) => void) | null = null;
  private gone: (() => void) | null = null;

  constructor(private readonly model: MessageModel) {}

  start(listener: TransportListener): void {
    this.receive = (message) => {
      clearInterval(this.asking);
      for (const frame of framesOf(message)) listener.frame(frame);
    };
    this.model.on("msg:custom", this.receive);
    // Jupyter's widget manager says so when the kernel restarts: the run was in that kernel, and ended with it.
    this.gone = () => {
      clearInterval(this.asking);
      listener.gone();
    };
    this.model.on("comm_live_update", this.gone);
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
    if (this.receive) this.model.off("msg:custom", this.receive);
    if (this.gone) this.model.off("comm_live_update", this.gone);
    this.receive = this.gone = null;
  }
}

function framesOf(message: unknown): string[] {
  if (typeof message !== "object" || message === null || !("frames" in message)) return [];
  const frames = message.frames;
  return Array.isArray(frames) ? frames.filter((frame) => typeof frame === "string") : [];
}
