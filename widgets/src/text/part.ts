/** A part of the front end that is loaded when it is first needed: cards come first. */
import { signal } from "@preact/signals";

export class Part<T> {
  private readonly loaded = signal<T | null>(null);
  private loading: Promise<void> | null = null;

  constructor(private readonly load: () => Promise<T>) {}

  /** `null` until it has come. Whoever asks makes it come, and a component that asks renders again then. */
  get value(): T | null {
    void this.fetch();
    return this.loaded.value;
  }

  /** Resolves when it has come, or has not: the server may be out of reach, or have another version by now. */
  fetch(): Promise<void> {
    return (this.loading ??= this.load().then(
      (part) => void (this.loaded.value = part),
      (error: unknown) => console.warn("Agent Kernel: a part of the page was not loaded.", error),
    ));
  }
}
