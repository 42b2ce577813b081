/** Completes code by the notebook's kernel: a card asks by an event, the JupyterLab extension answers. Neither imports the other. */

export const COMPLETE = "agent-kernel:complete";

/** Places in `code` count UTF-16 units, as those of JavaScript's texts do. */
export interface Completions {
  readonly from: number;
  readonly to: number;
  readonly options: readonly { readonly label: string; readonly type?: string }[];
}

export interface Complete {
  readonly code: string;
  readonly position: number;
  /** Called at most once; `null` where the kernel knows nothing. */
  readonly answer: (found: Completions | null) => void;
}

/** Whether a kernel answers here. */
export function canComplete(place: EventTarget): boolean {
  return !place.dispatchEvent(new CustomEvent(COMPLETE, { bubbles: true, cancelable: true }));
}

/** What can stand at a place in code; `null` also where nobody answers, or too late. */
export function complete(place: EventTarget, code: string, position: number): Promise<Completions | null> {
  return new Promise((resolve) => {
    const detail: Complete = { code, position, answer: resolve };
    if (place.dispatchEvent(new CustomEvent(COMPLETE, { bubbles: true, cancelable: true, detail }))) resolve(null);
  });
}
