/** On the card of a change of a cell: that the cell is no longer as the model has seen it. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Call } from "../state";
import { parseArguments } from "../text/arguments";
import { Icon } from "../ui/icon";
import { watchCell } from "../ui/watchCell";

export function StaleCell({ call }: { call: Call }): JSX.Element | null {
  const place = useRef<HTMLDivElement>(null);
  const [isStale, setStale] = useState(false);
  const digest = call.preview?.base ?? "";
  const named = parseArguments(call.input)?.["cell_id"];
  const cellId = typeof named === "string" && digest !== "" ? named.replace(/^cell:/, "") : null;
  useEffect(() => {
    if (cellId === null || place.current === null) return;
    const ends = new AbortController();
    watchCell(place.current, { cellId, digest, onState: setStale, signal: ends.signal });
    return () => ends.abort();
  }, [cellId, digest]);
  if (cellId === null) return null;
  return (
    <div ref={place} role="status" class={isStale ? "ak-line" : undefined} data-stale={isStale ? "" : undefined}>
      {isStale && (
        <span>
          <Icon name="warn" tone="ak-warn" />
          <span>
            <b>The cell has changed.</b> Approving changes and runs nothing: the model is told how the cell is now.
          </span>
        </span>
      )}
    </div>
  );
}
