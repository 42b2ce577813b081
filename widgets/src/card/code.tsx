/** A call's code, in full: numbered, wrapped, highlighted, with nothing hidden in it. */
import { type StructuredPatch, parsePatch } from "diff";
import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Preview, Warning } from "../protocol";
import type { Call } from "../state/model";
import { lineCount, ON_CELLS, parseArguments, prettyJson, shownCall } from "../text/arguments";
import { linesOf } from "../text/code";
import type { CodeToken } from "../text/highlight";
import { plural } from "../text/format";
import { copyButton } from "../ui/copying";
import { insertCells, watchCell } from "../ui/events";
import { Quoted, Fold, Plain } from "../ui/parts";
import { Icon } from "../ui/icon";

export const CallBody = memo(function CallBody(props: {
  name: string;
  input: string;
  preview: Preview | null;
  /** Arguments that a warning names in full are not said twice. */
  warnings?: readonly Warning[];
}): JSX.Element {
  const shown = shownCall(props.name, props.input, props.preview);
  const rest = shown.rest.filter(([, value]) => !props.warnings?.some((warning) => warning.detail === value));
  const facts = props.preview?.facts ?? [];
  const leftOut = props.preview?.left_out ?? "";
  return (
    <>
      {facts.length > 0 && (
        <div class="ak-line ak-facts">
          {facts.map((fact, index) => (
            <span key={index}>
              <Plain text={fact} />
            </span>
          ))}
        </div>
      )}
      {shown.kind === "diff" ? (
        <Diff text={shown.text} piece={shown.language === "piece"} language={shown.language} />
      ) : (
        <Code text={shown.text} language={shown.language} insertable={props.name === "run_python"} />
      )}
      {leftOut !== "" && <Everything name={props.name} input={props.input} leftOut={leftOut} />}
      {rest.length > 0 && (
        <div class="ak-line ak-arguments">
          {rest.map(([key, value]) => (
            <span key={key} class={ON_CELLS.includes(props.name) && key === "cell_id" ? "ak-cell-id" : undefined}>
              <b>{key}:</b> <Quoted text={value} />
            </span>
          ))}
        </div>
      )}
    </>
  );
});

/** A note on the part that a bounded diff leaves out, and the way to all that the call would write. */
function Everything({ name, input, leftOut }: { name: string; input: string; leftOut: string }): JSX.Element {
  const content = name === "write_file" ? parseArguments(input)?.["content"] : null;
  const [title, text, language] =
    typeof content === "string"
      ? [`All of the new content, ${plural(lineCount(content), "line")}`, content, ""]
      : ["All that the call replaces", prettyJson(input), "json"];
  return (
    <>
      <div class="ak-line">
        <span class="ak-note">{leftOut}</span>
      </div>
      <Fold title={title}>{() => <Code text={text} language={language} />}</Fold>
    </>
  );
}

/** `insertable`: it can become a cell as it is. */
export function Code({
  text,
  language,
  insertable = false,
}: {
  text: string;
  language: string;
  insertable?: boolean;
}): JSX.Element {
  const lines = linesOf(text.replace(/\n$/, ""), language);
  return (
    <>
      <Copy text={text} />
      {insertable && language === "python" && <InsertBelow code={text} />}
      <pre class="ak-code" dir="ltr" data-role="code">
        {lines.map((line, index) => (
          <span class="ak-l" key={index}>
            <Tokens tokens={line} />
            {index < lines.length - 1 && "\n"}
          </span>
        ))}
      </pre>
    </>
  );
}

function Tokens({ tokens }: { tokens: readonly CodeToken[] }): JSX.Element {
  return (
    <>
      {tokens.map((token, at) => (
        <span class={token.classes} key={at}>
          <Plain text={token.text} />
        </span>
      ))}
    </>
  );
}

/** Copies exactly `text`, which may be shown with its hidden characters written out. */
function Copy({ text }: { text: string }): JSX.Element {
  const place = useRef<HTMLSpanElement>(null);
  const current = useRef(text);
  current.current = text;
  useLayoutEffect(() => place.current?.replaceChildren(copyButton(() => current.current)), []);
  return <span class="ak-copy-place" ref={place} />;
}

/** `piece`: the diff is of a piece of a file, and its line numbers say nothing about the file. `language`: of a cell. */
export function Diff({
  text,
  piece = false,
  language = "",
}: {
  text: string;
  piece?: boolean;
  language?: string;
}): JSX.Element {
  const files = readPatch(text);
  if (files === null) return <Code text={text} language="" />;
  return (
    <pre
      class={`ak-diff ${piece ? "ak-piece" : ""}`}
      style={{ "--ak-digits": String(digits(files)) }}
      dir="ltr"
      data-role="diff"
    >
      {files.map((file) =>
        file.hunks.map((hunk, at) => (
          <Hunk key={at} hunk={hunk} piece={piece} created={file.oldFileName === "/dev/null"} language={language} />
        )),
      )}
    </pre>
  );
}

/** Of the largest line number, for which each row keeps room. */
function digits(files: readonly StructuredPatch[]): number {
  const last = files.flatMap((file) =>
    file.hunks.flatMap((hunk) => [hunk.oldStart + hunk.oldLines, hunk.newStart + hunk.newLines]),
  );
  return String(Math.max(0, ...last)).length;
}

export function changeCount(text: string): string {
  const lines = (readPatch(text) ?? []).flatMap((file) => file.hunks.flatMap((hunk) => hunk.lines));
  const count = (mark: string): number => lines.filter((line) => line.startsWith(mark)).length;
  return `+${count("+")} −${count("-")}`;
}

function readPatch(text: string): StructuredPatch[] | null {
  try {
    const files = parsePatch(text);
    return files.some((file) => file.hunks.length > 0) ? files : null;
  } catch {
    return null;
  }
}

function Hunk({
  hunk,
  piece,
  created,
  language,
}: {
  hunk: StructuredPatch["hunks"][number];
  piece: boolean;
  created: boolean;
  language: string;
}): JSX.Element {
  let before = hunk.oldStart;
  let after = hunk.newStart;
  const title = created
    ? `new file, ${plural(hunk.newLines, "line")}`
    : `@@ -${from(hunk.oldStart, hunk.oldLines)},${hunk.oldLines} +${from(hunk.newStart, hunk.newLines)},${hunk.newLines} @@`;
  return (
    <>
      {!piece && <span class="ak-hunk">{title}</span>}
      {hunk.lines.map((line, index) => {
        const mark = line[0] ?? " ";
        const [old, now] = [mark === "+" ? "" : before, mark === "-" ? "" : after];
        if (mark === "\\")
          return (
            <span class="ak-hunk" key={index}>
              {line.slice(2)}
            </span>
          );
        if (mark !== "+") before += 1;
        if (mark !== "-") after += 1;
        return (
          <span class={`ak-l ${mark === "+" ? "ak-add" : mark === "-" ? "ak-del" : ""}`} key={index}>
            {!piece && <span class="ak-n">{old}</span>}
            {!piece && <span class="ak-n">{now}</span>}
            <span>{mark === "-" ? "−" : mark}</span>
            <span>
              <Tokens tokens={linesOf(line.slice(1), language)[0] ?? []} />
            </span>
          </span>
        );
      })}
    </>
  );
}

/** The parser counts a side without lines from the line after; the diff itself from the line before. */
function from(start: number, lines: number): number {
  return lines === 0 ? start - 1 : start;
}

export function InsertBelow({ code }: { code: string }): JSX.Element | null {
  const [failed, fail] = useState(false);
  if (code.trim() === "" || !insertCells(document, [])) return null;
  return (
    <>
      <button type="button" class="ak-copy" onClick={(event) => fail(!insertCells(event.currentTarget, [code]))}>
        Insert below as a cell
      </button>
      {failed && (
        <div class="ak-line ak-note" role="alert">
          There is no cell around this output.
        </div>
      )}
    </>
  );
}

export function StaleCell({ call }: { call: Call }): JSX.Element | null {
  const place = useRef<HTMLDivElement>(null);
  const [stale, setStale] = useState<"changed" | "locked" | null>(null);
  const digest = call.preview?.base ?? "";
  const named = parseArguments(call.tool_input)?.["cell_id"];
  const cellId = typeof named === "string" && digest !== "" ? named.replace(/^cell:/, "") : null;
  const change = call.tool_name === "edit_cell" ? "edit" : call.tool_name === "delete_cell" ? "delete" : null;
  useEffect(() => {
    if (cellId === null || place.current === null) return;
    const ends = new AbortController();
    watchCell(place.current, { cellId, digest, change, onState: setStale, signal: ends.signal });
    return () => ends.abort();
  }, [cellId, digest, change]);
  if (cellId === null) return null;
  return (
    <div ref={place} role="status" class={stale ? "ak-line" : undefined} data-stale={stale ?? undefined}>
      {stale !== null && (
        <span>
          <Icon name="warn" tone="ak-warn" />
          <span>
            <b>{stale === "locked" ? "The cell is locked now." : "The cell has changed."}</b> Approving changes and runs
            nothing: the model is told {stale === "locked" ? "that it is locked" : "how the cell is now"}.
          </span>
        </span>
      )}
    </div>
  );
}
