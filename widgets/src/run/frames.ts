/** When a run is rendered: at most once a frame, however many events come. */
import type { Channel } from "../channel/channel";
import { isMoreText, type RunState } from "../state";

export class Frames {
  private render: () => void = () => undefined;
  private readonly readers = new Set<() => void>();
  private heardState: RunState;
  /** More than a growing text has changed since the last frame. */
  private stale = false;
  private frame: { cancel(): void } | null = null;

  constructor(
    private readonly channel: Channel,
    private readonly runId: string,
  ) {
    this.heardState = channel.state(runId);
  }

  /** Calls `render` when the run has changed, until the function that it gives back is called. */
  watch(render: () => void): () => void {
    this.render = render;
    this.heardState = this.channel.state(this.runId);
    const stop = this.channel.subscribe(() => this.heard());
    render();
    return () => {
      stop();
      this.frame?.cancel();
    };
  }

  watchText(render: () => void): () => void {
    this.readers.add(render);
    return () => this.readers.delete(render);
  }

  schedule(): void {
    this.stale = true;
    this.next();
  }

  /** What the person just asked for is there before their next key is. */
  showNow(): void {
    this.render();
  }

  private heard(): void {
    const before = this.heardState;
    this.heardState = this.channel.state(this.runId);
    if (isMoreText(before, this.heardState)) this.next();
    else this.schedule();
  }

  private next(): void {
    if (this.frame !== null) return;
    const show = (): void => {
      this.frame = null;
      const { stale } = this;
      this.stale = false;
      if (stale) this.render();
      for (const read of this.readers) read();
    };
    // A page in the background paints no frames, and is still read out.
    if (document.hidden) {
      const timer = setTimeout(show, 200);
      this.frame = { cancel: () => clearTimeout(timer) };
    } else {
      const frame = requestAnimationFrame(show);
      this.frame = { cancel: () => cancelAnimationFrame(frame) };
    }
  }
}
