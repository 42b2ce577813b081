/** Notes on cards whose clicks wait for the kernel: without a server, it may receive nothing while it runs a cell. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Icon } from "../ui/icon";
import { useRun } from "./context";

/** A click that a kernel receives at once is answered long before. */
const LATE_MS = 1_000;

/** Whether a click that was made as this view appeared waits for the kernel. */
export function useHeldBack(): boolean {
  const { receives } = useRun().store;
  const [late, setLate] = useState(false);
  useEffect(() => {
    if (receives === "always") return;
    const timer = setTimeout(() => setLate(true), LATE_MS);
    return () => clearTimeout(timer);
  }, [receives]);
  return late;
}

/** Under the header, once Stop or Cancel was pressed and while something runs. */
export function InterruptNote(): JSX.Element | null {
  if (!useHeldBack()) return null;
  return (
    <div class="ak-bar" role="status">
      <Icon name="clock" tone="ak-calm" />
      <span class="ak-grow">
        <b>Not stopped yet.</b> This kernel hears Stop and Cancel when what it runs has ended. To end that now,
        interrupt the kernel.
      </span>
    </div>
  );
}
