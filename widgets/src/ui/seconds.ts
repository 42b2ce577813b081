import { useEffect, useState } from "preact/hooks";

/** Renders once a second while something on screen counts them. */
export function useSeconds(active: boolean): void {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(() => tick((n) => n + 1), 1_000);
    return () => clearInterval(timer);
  }, [active]);
}
