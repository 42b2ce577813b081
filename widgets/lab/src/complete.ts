/** Answers the editors of cards: the kernel of their notebook completes their code. */
import type { INotebookTracker } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";
import { COMPLETE, type Complete, type Completions } from "../../src/ui/complete";
import { placeOf } from "./insert";

const MOST_CHARACTERS = 200_000;
const MOST_OPTIONS = 500;
/** The first answer of a kernel takes it some. */
const SECONDS = 10;

/** Answers cards of all notebooks in the page. */
export function answerCompletions(tracker: INotebookTracker): void {
  document.addEventListener(COMPLETE, (event) => {
    const asked = read(event);
    const kernel =
      event.target instanceof Element
        ? placeOf(tracker, event.target)?.panel.sessionContext.session?.kernel
        : undefined;
    if (kernel === undefined || kernel === null) return;
    event.preventDefault();
    if (asked === null) return;
    const late = setTimeout(() => asked.answer(null), 1_000 * SECONDS);
    void ask(kernel, asked)
      .catch(() => null)
      .then((found) => {
        clearTimeout(late);
        asked.answer(found);
      });
  });
}

/** Any script in the page may have sent it. */
function read(event: Event): Complete | null {
  const asked = event instanceof CustomEvent ? (event.detail as Partial<Complete> | null) : null;
  const { code, position, answer } = asked ?? {};
  const isWhole = typeof code === "string" && typeof position === "number" && typeof answer === "function";
  return isWhole && code.length <= MOST_CHARACTERS ? { code, position, answer } : null;
}

async function ask(kernel: Kernel.IKernelConnection, { code, position }: Complete): Promise<Completions | null> {
  // Kernels count code points.
  const before = [...code.slice(0, position)].length;
  const { content } = await kernel.requestComplete({ code, cursor_pos: before });
  if (content.status !== "ok") return null;
  const points = [...code];
  const unitsOf = (count: number): number => points.slice(0, count).join("").length;
  const types = typesOf(content.metadata["_jupyter_types_experimental"]);
  return {
    from: unitsOf(content.cursor_start),
    to: unitsOf(content.cursor_end),
    options: content.matches.slice(0, MOST_OPTIONS).map((label, index) => {
      const type = types[index];
      return type === undefined ? { label } : { label, type };
    }),
  };
}

function typesOf(listed: unknown): (string | undefined)[] {
  if (!Array.isArray(listed)) return [];
  return listed.map((one: { type?: unknown } | null) => (typeof one?.type === "string" ? one.type : undefined));
}
