/** The page's channels. A widget's module is loaded once per model, so they are shared through the page's globals. */
import { Channel } from "./channel";
import type { Transport } from "./transport";

/** The number goes up when `Channel` changes its shape: an old page keeps its old channels. */
const SHARED = Symbol.for("agent_kernel.channels.v3");
/** A view that moves in the page is taken away and rendered again; its channel is kept that long. */
const KEEP_MS = 2_000;
/** How long a channel that was opened ahead waits for its first view, and how many at most are without one. */
const AHEAD_MS = 10_000;
const MOST_AHEAD = 4;

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
      if (entry.views === 0) entry.closing = setTimeout(() => discard(entries, key, entry), KEEP_MS);
    },
  };
}

/** Opens a channel that a view will soon want, unless there is one, or several wait for their views already. */
export function openAhead(key: string, open: () => Transport): void {
  const entries = sharedEntries();
  const waiting = [...entries.values()].filter(({ views }) => views === 0);
  if (entries.has(key) || waiting.length >= MOST_AHEAD) return;
  const entry: Entry = { channel: new Channel(open()), views: 0, closing: undefined };
  entry.closing = setTimeout(() => discard(entries, key, entry), AHEAD_MS);
  entries.set(key, entry);
}

function discard(entries: Map<string, Entry>, key: string, entry: Entry): void {
  entries.delete(key);
  entry.channel.close();
}

function sharedEntries(): Map<string, Entry> {
  const page = globalThis as { [SHARED]?: Map<string, Entry> };
  return (page[SHARED] ??= new Map());
}
