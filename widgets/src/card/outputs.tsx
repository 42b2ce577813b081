/** A call's outputs as a cell shows them: streams, tables, plots, tracebacks. */
import Anser from "anser";
import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { drawnMime, WIDGET_VIEW } from "./notebookRenderers";
import { renderMarkdown } from "../text/markdown";
import { cut, leftOut, plural } from "../text/format";
import { imageAddress, safeHtml, svgAddress } from "../text/sanitize";
import { splitTraceback } from "../text/traceback";
import {
  type Block,
  type DisplayBlock,
  hasRichOutput,
  type Outputs,
  type StreamBlock,
  streamText,
} from "../state/outputs";
import { NotebookContext } from "./context";
import { Drawing } from "./drawings";
import { Icon } from "../ui/icon";

/** Characters of one output that are put into the page. */
const TEXT_SHOWN = 100_000;
const HTML_SHOWN = 1_000_000;
/** Pixels from its end within which a text follows what is added. */
const NEAR_END = 8;
// Escape sequences other than colours: moves of the cursor, titles, links.
const OTHER_ESCAPES = /\u001b(?:\[[0-9;?]*[A-Za-ln-z]|\][^\u0007\u001b]*(?:\u0007|\u001b\\))/g;

/** What is drawn stays in the page while it is `hidden`: a script in it runs once, and a chart stays as it was zoomed. */
export const OutputList = memo(function OutputList({
  outputs,
  hidden,
}: {
  outputs: Outputs;
  hidden: boolean;
}): JSX.Element | null {
  const stays = useRef(false);
  stays.current = hasRichOutput(outputs) && (stays.current || !hidden);
  if (outputs.blocks.length === 0 || (hidden && !stays.current)) return null;
  return (
    <div class="ak-outputs" hidden={hidden}>
      {outputs.droppedBlocks > 0 && (
        <OutputNote text={`${plural(outputs.droppedBlocks, "earlier output")} not shown here.`} />
      )}
      {outputs.blocks.map((block) => (
        <OutputBlock key={block.key} block={block} />
      ))}
    </div>
  );
});

const OutputBlock = memo(function OutputBlock({ block }: { block: Block }): JSX.Element | null {
  switch (block.kind) {
    case "stream":
      return <Stream block={block} />;
    case "error":
      return <Traceback text={block.text} />;
    case "display":
      return <Display block={block} />;
  }
});

export function OutputNote({ text }: { text: string }): JSX.Element {
  return <div class="ak-out ak-note">{text}</div>;
}

/** A long text has a window of its own, as JupyterLab's scrolled outputs do. It shows the end, which is where a program
 * says how it goes, unless the reader has scrolled away from it. */
function Stream({ block }: { block: StreamBlock }): JSX.Element | null {
  const frame = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const isEmpty = streamText(block) === "";
  const showEnd = (): void => {
    if (frame.current !== null && atEnd.current) frame.current.scrollTop = frame.current.scrollHeight;
  };
  useLayoutEffect(showEnd, [block]);
  useEffect(() => {
    if (frame.current === null || typeof ResizeObserver === "undefined") return;
    const sizes = new ResizeObserver(showEnd); // the window is smaller once the next step goes on
    sizes.observe(frame.current);
    return () => sizes.disconnect();
  }, [isEmpty]);
  if (isEmpty) return null;
  return (
    <div
      ref={frame}
      class={`ak-out ak-stream ${block.name === "stderr" ? "ak-stderr" : ""}`}
      onScroll={({ currentTarget: at }) =>
        (atEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_END)
      }
    >
      {block.droppedCharacters > 0 && (
        <p class="ak-note">… [{leftOut(block.droppedLines, block.droppedCharacters)} here]</p>
      )}
      <pre dir="ltr" data-role={block.name}>
        <AnsiText text={streamText(block)} />
      </pre>
    </div>
  );
}

function Traceback({ text }: { text: string }): JSX.Element {
  const [all, showAll] = useState(false);
  const { own, frames } = useMemo(() => splitTraceback(text), [text]);
  return (
    <>
      <div class="ak-out ak-err">
        <pre dir="ltr" data-role="traceback">
          <AnsiText text={all ? text : own} />
        </pre>
      </div>
      {frames > 0 && (
        <button type="button" class="ak-fold" aria-expanded={all} onClick={() => showAll(!all)}>
          <Icon name={all ? "down" : "right"} tone="ak-chev" />
          <span>{plural(frames, "library frame")}</span>
        </button>
      )}
    </>
  );
}

const AnsiText = memo(function AnsiText({ text }: { text: string }): JSX.Element {
  const shown = cut(text, TEXT_SHOWN).replaceAll(OTHER_ESCAPES, "");
  if (!shown.includes("\u001b")) return <>{shown}</>;
  return (
    <>
      {Anser.ansiToJson(shown, { use_classes: true, remove_empty: true }).map((part, index) => (
        <AnsiPart key={index} part={part} />
      ))}
    </>
  );
});

/** The colours of a terminal, dim and bright ones alike, as the page's own that can be read on its ground. */
const COLOURS: Readonly<Record<string, string>> = {
  "ansi-black": "var(--jp-ui-font-color1)",
  "ansi-red": "var(--jp-error-color1)",
  "ansi-green": "var(--jp-success-color1)",
  "ansi-yellow": "var(--jp-warn-color0)",
  "ansi-blue": "var(--jp-content-link-color)",
  "ansi-magenta": "var(--jp-mirror-editor-operator-color)",
  "ansi-cyan": "var(--jp-mirror-editor-property-color)",
  "ansi-white": "var(--jp-ui-font-color1)",
};

function AnsiPart({ part }: { part: Anser.AnserJsonEntry }): JSX.Element {
  const [ink, ground] = [part.fg, part.bg].map((name) => (name ? name.replace("bright-", "") : ""));
  const colour = COLOURS[ground ?? ""];
  return (
    <span
      class={[ink && `ak-${ink}`, ...part.decorations.map((name) => `ak-ansi-${name}`)].join(" ")}
      style={{ color: COLOURS[ink ?? ""], background: colour && `color-mix(in srgb, ${colour} 22%, transparent)` }}
    >
      {part.content}
    </span>
  );
}

function Display({ block }: { block: DisplayBlock }): JSX.Element | null {
  const mime = drawnMime(useContext(NotebookContext), block.data);
  return mime === null ? <OwnDisplay block={block} /> : <DrawnDisplay block={block} mime={mime} />;
}

/** An output that the notebook draws. The element's content is the drawing's: Preact leaves it alone. */
function DrawnDisplay({ block, mime }: { block: DisplayBlock; mime: string }): JSX.Element {
  const notebook = useContext(NotebookContext);
  const host = useRef<HTMLDivElement>(null);
  const drawing = useRef<Drawing | null>(null);
  useLayoutEffect(() => {
    drawing.current = new Drawing(host.current!, notebook ?? {});
    return () => drawing.current?.dispose();
  }, [notebook]);
  useLayoutEffect(() => drawing.current?.draw(block, mime), [notebook, block, mime]);
  return <div ref={host} class="ak-drawn" data-mime-type={mime} />;
}

function OwnDisplay({ block }: { block: DisplayBlock }): JSX.Element | null {
  return useMemo(() => richest(block), [block]);
}

/** The best form of a bundle that is safe to show. */
function richest({ data, metadata }: DisplayBlock): JSX.Element | null {
  const plain = textOf(data["text/plain"]);
  const html = textOf(data["text/html"]);
  if (html !== null && html.length <= HTML_SHOWN) {
    const safe = safeHtml(html);
    if (safe.trim() !== "") return <div class="ak-out ak-html" dangerouslySetInnerHTML={{ __html: safe }} />;
  }
  const image = imageOf(data);
  if (image !== null) {
    return (
      <div class="ak-out">
        <img class="ak-plot" src={image.address} alt={plain ?? "Image"} {...sizeOf(metadata[image.mime])} />
      </div>
    );
  }
  const markdown = textOf(data["text/markdown"]);
  if (markdown !== null)
    return <div class="ak-out ak-answer" dangerouslySetInnerHTML={{ __html: renderMarkdown(markdown) }} />;
  if (plain === null && Object.keys(data).length > 0) return <OutputNote text={notShown(Object.keys(data))} />;
  return plain === null || plain === "" ? null : (
    <div class="ak-out">
      <pre dir="ltr">
        <AnsiText text={plain} />
      </pre>
    </div>
  );
}

function notShown(mimes: readonly string[]): string {
  if (mimes.includes(WIDGET_VIEW)) return "Widgets are not shown in this notebook’s cards.";
  return `This notebook has no way to show ${mimes.join(", ").slice(0, 300)}.`;
}

function imageOf(data: Readonly<Record<string, unknown>>): { mime: string; address: string } | null {
  const svg = textOf(data["image/svg+xml"]);
  const drawing = svg !== null && svg.length <= HTML_SHOWN ? svgAddress(svg) : null;
  if (drawing !== null) return { mime: "image/svg+xml", address: drawing };
  for (const mime of ["image/png", "image/jpeg"]) {
    const address = imageAddress(mime, textOf(data[mime]));
    if (address !== null) return { mime, address };
  }
  return null;
}

/** The size that an image's metadata asks for, as `Image(width=...)` and retina plots do. */
function sizeOf(asked: unknown): { width?: number; height?: number } {
  const { width, height } = (typeof asked === "object" && asked !== null ? asked : {}) as {
    width?: unknown;
    height?: unknown;
  };
  return { ...(typeof width === "number" && { width }), ...(typeof height === "number" && { height }) };
}

/** nbformat allows a text as a list of lines. */
function textOf(value: unknown): string | null {
  if (typeof value === "string") return value;
  return Array.isArray(value) ? value.join("") : null;
}
