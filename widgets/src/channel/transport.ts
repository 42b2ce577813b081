/** Carries frames between the runtime and a channel. Order and loss are the channel's business. */
import type { ClientCommand } from "../protocol";

export interface TransportListener {
  opened(): void;
  frame(text: string): void;
  /** Called once for each lost connection and failed attempt, with the time (ms) of the next attempt. */
  lost(nextTryAt: number): void;
  /** Why the runtime takes no connection, in its own words; null where it does not say. */
  trouble(why: string | null): void;
  /** The runtime does not let this page read: no more attempt is made before `retryNow`. */
  refused(): void;
  /** The other side is gone for good. */
  gone(): void;
}

/** When the runtime receives what a page sends. A kernel does at any time where messages have a channel apart from its cells. */
export type Receives = "always" | "usually";

export interface Transport {
  readonly receives: Receives;
  /** True where the runtime learns of each connection, and begins it with a `session` event. Else a `resume` asks for it. */
  readonly greets: boolean;
  start(listener: TransportListener): void;
  /** False where there is no connection: nothing was sent. */
  send(command: ClientCommand): boolean;
  retryNow(): void;
  close(): void;
}
