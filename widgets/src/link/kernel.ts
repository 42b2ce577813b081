/** The embedded host: frames travel as custom messages of the widget that shows the run. */
import type { ClientCommand } from "../protocol";
import type { Transport, TransportListener } from "./transport";

export interface MessageModel {
  on(event: "msg:custom", callback: (message: unknown) => void): void;
  off(event: "msg:custom", callback: (message: unknown) => void): void;
  send(content: unknown): void;
}

export class KernelTransport implements Transport {
  readonly greets = false;
  private receive: ((message: unknown) => void) | null = null;

  constructor(private readonly model: MessageModel) {}

  start(listener: TransportListener): void {
    this.receive = (message) => {
      for (const frame of framesOf(message)) listener.frame(frame);
    };
    this.model.on("msg:custom", this.receive);
    listener.opened();
  }

  send(command: ClientCommand): boolean {
    this.model.send({ command });
    return true;
  }

  retryNow(): void {
    // A kernel's messages have no connection of their own to try again.
  }

  close(): void {
    if (this.receive) this.model.off("msg:custom", this.receive);
    this.receive = null;
  }
}

function framesOf(message: unknown): string[] {
  if (typeof message !== "object" || message === null || !("frames" in message)) return [];
  const frames = message.frames;
  return Array.isArray(frames) ? frames.filter((frame) => typeof frame === "string") : [];
}
