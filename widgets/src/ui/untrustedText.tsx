/** Text that someone else wrote: what hides in it is shown. */
import type { ComponentChild, JSX } from "preact";
import { pieces } from "../text/invisible";

export function Plain({ text }: { text: string }): JSX.Element {
  const found = pieces(text);
  return <>{found.map((piece, index) => (index % 2 === 0 ? piece : <span class="ak-hidden">{piece}</span>))}</>;
}

/** A message of the runtime, which may have several lines, and code between backticks. Lines that are indented stay below
 * each other, as the columns that they are. */
export function Message({ text }: { text: string }): JSX.Element {
  const [first, ...rest] = text.split("\n");
  const parts: { columns: boolean; lines: string[] }[] = [];
  for (const line of rest) {
    const columns = line.startsWith("  ");
    const last = parts.at(-1);
    if (columns && last?.columns) last.lines.push(line.slice(2));
    else parts.push({ columns, lines: [columns ? line.slice(2) : line] });
  }
  return (
    <>
      {coded(first ?? "")}
      {parts.map(({ columns, lines }) =>
        columns ? (
          <pre class="ak-columns">{lines.join("\n")}</pre>
        ) : (
          <span class="ak-next">{coded(lines[0] ?? "")}</span>
        ),
      )}
    </>
  );
}

function coded(line: string): ComponentChild[] {
  return line.split(/`([^`]+)`/).map((part, index) => (index % 2 === 0 ? part : <code>{part}</code>));
}
