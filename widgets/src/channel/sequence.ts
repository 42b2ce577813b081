/** Which frame comes next. A channel takes each event once and in order, whatever the line does. */

export type FrameAction = "take" | "drop" | "resume";

export class Sequence {
  /** The `seq` of the last event taken. */
  last = 0;
  private gapAt: number | null = null;

  actionFor(seq: number): FrameAction {
    if (seq <= this.last) return "drop";
    if (seq === this.last + 1) return this.take(seq);
    // The same frame again, after the events since `last` were asked for: the log has nothing in between.
    if (seq === this.gapAt) return this.take(seq);
    if (this.gapAt !== null) return "drop";
    this.gapAt = seq;
    return "resume";
  }

  jumpTo(seq: number): void {
    this.last = seq;
    this.gapAt = null;
  }

  /** A new connection: what was in flight on the old one is lost. */
  reconnected(): void {
    this.gapAt = null;
  }

  private take(seq: number): FrameAction {
    this.last = seq;
    this.gapAt = null;
    return "take";
  }
}
