/** The page's channels. A widget's module is loaded once per model, so they are shared through the page's globals. */
import { Channel } from "./channel";
import type { Transport } from "./transport";

/** The number goes up when `Channel` changes its shape: an old page keeps its old channels. */
const SHARED = Symbol.for("agent_kernel.channels.v4");
/** A view that moves in the page is taken away and rendered again; its channel is kept that long. */
const KEEP_MS = 2_000;

interface Entry {
  readonly channel: Channel;
  views: number;
  closing: ReturnType<typeof setTimeout> | undefined;
}

export interface Lease {
  readonly channel: Channel;
  release(): void;
}

export function leaseChannel(key: string, open: () => Transport): Lease {
  const entries = sharedEntries();
  const entry = entries.get(key) ?? { channel: new Channel(open()), views: 0, closing: undefined };
  entries.set(key, entry);
  entry.views += 1;
  clearTimeout(entry.closing);
  let released = false;
  return {
    channel: entry.channel,
    release() {
      if (released) return;
      released = true;
      entry.views -= 1;
      if (entry.views > 0) return;
      entry.closing = setTimeout(() => {
        entries.delete(key);
        entry.channel.close();
      }, KEEP_MS);
    },
  };
}

function sharedEntries(): Map<string, Entry> {
  const page = globalThis as { [SHARED]?: Map<string, Entry> };
  return (page[SHARED] ??= new Map());
}
