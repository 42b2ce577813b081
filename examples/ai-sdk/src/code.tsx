/** Code with colours, and Markdown while it streams. Both become React elements: no HTML of a model gets into the page. */

import { toJsxRuntime } from "hast-util-to-jsx-runtime";
import type { ElementContent } from "hast";
import bash from "highlight.js/lib/languages/bash";
import diff from "highlight.js/lib/languages/diff";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import { createLowlight } from "lowlight";
import { memo, useMemo } from "react";
import { Fragment, jsx, jsxs } from "react/jsx-runtime";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";
import remend from "remend";

const lowlight = createLowlight({ bash, diff, json, python });

export function Code({ text, language = "python" }: { text: string; language?: string }) {
  const lines = useMemo(() => {
    if (!lowlight.registered(language)) return text.split("\n");
    const found = byLine(lowlight.highlight(language, text).children as ElementContent[]);
    return found.map((children) => toJsxRuntime({ type: "root", children }, { Fragment, jsx, jsxs }));
  }, [text, language]);
  return (
    <pre className="code">
      <code>
        {lines.map((line, index) => (
          <span key={index}>{line}</span>
        ))}
      </code>
    </pre>
  );
}

/** Each line is an element of its own, which gets a number: a line that wraps can't be taken for two. */
function byLine(nodes: ElementContent[]): ElementContent[][] {
  const lines: ElementContent[][] = [[]];
  for (const node of nodes) {
    let pieces: ElementContent[][] = [];
    if (node.type === "text") pieces = node.value.split("\n").map((value) => [{ type: "text", value }]);
    else if (node.type === "element") pieces = byLine(node.children).map((children) => [{ ...node, children }]);
    pieces.forEach((piece, index) => {
      if (index > 0) lines.push([]);
      lines.at(-1)!.push(...piece);
    });
  }
  return lines;
}

const COMPONENTS: Components = {
  pre: ({ children }) => <>{children}</>,
  code: ({ className, children }) => {
    const text = String(children);
    if (!className && !text.endsWith("\n")) return <code>{text}</code>;
    return <Code text={text.trimEnd()} language={className?.replace("language-", "")} />;
  },
  // A picture from elsewhere would tell that server what stands in its address.
  img: ({ alt }) => <em>{alt || "A picture"}</em>,
  a: ({ href, children }) => (
    <a href={href} target="_blank" rel="noreferrer">
      {children}
    </a>
  ),
};

/** `remend` closes what the model has only begun, such as `**bold`. */
export const Markdown = memo(function Markdown({ text, streams = false }: { text: string; streams?: boolean }) {
  return (
    <div className="markdown">
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={COMPONENTS}>
        {streams ? remend(text) : text}
      </ReactMarkdown>
    </div>
  );
});
