/** Runs grow, fold, and end as a short record, while a person reads above, in or below them. What they read stays where it
 * is on the screen, as far as the notebook scrolls. The browser's own anchoring does not do it: JupyterLab leaves it to the
 * active cell, there is none where the notebook is at its top, and it goes too far where a run grows and folds at once. */

/** JupyterLab holds an output's height for a moment when it is replaced. */
const SETTLED_MS = 3_000;
/** A run that shrinks to less than this (px) at the top of the notebook is out of sight. */
const OUT_OF_SIGHT = 40;
const CELL = ".jp-Cell";
const RUN = ".ak-run, [data-agent-record]";
const GOES_ON = ".ak-run:not([data-status=complete], [data-status=cancelled], [data-status=error])";
const PART = ".ak-card, [data-role=answer]";
const ACTS = ["pointerdown", "keydown", "wheel"];

/** Something in the notebook, and where its top is on the screen. */
interface Spot {
  readonly node: Element;
  readonly top: number;
}

/** By what scrolls, as there may be several notebooks in the page. */
const places = new WeakMap<Element, Place>();

/** Keeps the person's place while a run is shown, and while its cards are replaced. Returns what ends that. */
export function keepsPlace(el: HTMLElement): () => void {
  if (typeof ResizeObserver === "undefined") return () => undefined;
  let leave = (): void => undefined;
  // What is drawn comes into its cell, and has a height, later.
  const drawn = new ResizeObserver(() => {
    const cell = el.closest(CELL);
    const page = cell?.closest<HTMLElement>(".jp-WindowedPanel-outer");
    if (!cell || !page) return;
    drawn.disconnect();
    const place = places.get(page) ?? new Place(page);
    places.set(page, place);
    leave = place.watch(cell);
  });
  drawn.observe(el);
  return () => {
    drawn.disconnect();
    setTimeout(() => leave(), SETTLED_MS);
  };
}

class Place {
  /** The height of each cell with a run, and how many views are in it. */
  private readonly cells = new Map<Element, { height: number; views: number }>();
  /** The part of a run that the person has pressed or typed in, or the cell that they have run; `null` for the active cell. */
  private at: Element | null = null;
  /** What they read, as it was on the screen before anything changed. */
  private read: Spot | null = null;
  /** Likewise, of each run that is in view, the next cell where that is, too. */
  private below = new Map<Element, Spot | null>();
  private scrollTop = 0;
  private ends = new AbortController();
  private readonly sizes = new ResizeObserver(() => this.resized());

  constructor(private readonly page: HTMLElement) {}

  /** Returns what ends it. */
  watch(cell: Element): () => void {
    if (this.cells.size === 0) this.begin();
    const known = this.cells.get(cell) ?? { height: heightOf(cell), views: 0 };
    known.views += 1;
    this.cells.set(cell, known);
    this.sizes.observe(cell);
    // Running a cell makes the next one active, and yet it is the one that was run that is looked at.
    this.at = cell;
    this.look();
    return () => {
      known.views -= 1;
      if (known.views > 0) return;
      this.cells.delete(cell);
      this.sizes.unobserve(cell);
      if (this.cells.size === 0) this.end();
    };
  }

  private begin(): void {
    this.ends = new AbortController();
    const { signal } = this.ends;
    for (const act of ACTS) this.page.addEventListener(act, this.acted, { capture: true, passive: true, signal });
    this.page.addEventListener("scroll", this.scrolled, { passive: true, signal });
    this.page.style.overflowAnchor = "none"; // else a scroll of the browser's would look like a person's
    // Other cells grow as well, and move what is below them.
    for (const all of this.page.querySelectorAll(".jp-WindowedPanel-viewport")) this.sizes.observe(all);
  }

  private end(): void {
    this.ends.abort();
    this.page.style.removeProperty("overflow-anchor");
    this.sizes.disconnect();
  }

  private readonly acted = (event: Event): void => {
    const target = event.type !== "wheel" && event.target instanceof Element ? event.target : null;
    const runs = event instanceof KeyboardEvent && event.key === "Enter";
    this.at = target?.closest(PART) ?? (runs ? (target?.closest(CELL) ?? null) : null);
    requestAnimationFrame(() => this.look());
  };

  private readonly scrolled = (): void => {
    if (this.page.scrollTop !== this.scrollTop) this.look();
  };

  private resized(): void {
    if (this.page.clientHeight === 0) return; // another tab is in front
    const changed = [...this.cells].filter(([cell, known]) => {
      const before = known.height;
      return (known.height = heightOf(cell)) !== before;
    });
    this.keep(changed.map(([cell]) => cell));
    this.note();
  }

  private keep(changed: readonly Element[]): void {
    const ended = changed.find((cell) => this.below.get(cell) && cell.querySelector(GOES_ON) === null);
    const spot = (ended && this.below.get(ended)) ?? this.read;
    if (spot?.node.isConnected) this.page.scrollTop += topOf(spot.node) - spot.top;
    else {
      const least = topOf(this.page) + OUT_OF_SIGHT;
      const lost = changed.find((cell) => this.below.has(cell) && cell.getBoundingClientRect().bottom < least);
      lost?.scrollIntoView({ block: "nearest" });
    }
  }

  /** Finds out again what they read. */
  private look(): void {
    this.read = null;
    this.note();
  }

  /** Notes where all is until something changes its size. What they read is the same until they act. */
  private note(): void {
    const seen = [...this.cells.keys()].filter((cell) => this.isSeen(cell));
    this.below = new Map(seen.map((cell) => [cell, spotOf(this.nextSeen(cell), this.below.get(cell))]));
    this.scrollTop = this.page.scrollTop;
    const reads = this.read?.node;
    this.read = spotOf(reads && this.isSeen(reads) ? reads : this.reading(), this.read);
  }

  private reading(): Element | null {
    const at = this.at?.isConnected ? this.at : this.page.querySelector(`${CELL}.jp-mod-active`);
    if (at !== null && !this.cells.has(at) && this.isSeen(at)) return at;
    const { top, left, width } = this.page.getBoundingClientRect();
    const first = document.elementFromPoint(left + width / 2, top + 1)?.closest(CELL);
    if (!first || !this.page.contains(first)) return null;
    const run = this.cells.has(first) ? first.querySelector(RUN) : null;
    if (run === null || topOf(run) >= top) return first;
    return this.nextSeen(first) ?? [...first.querySelectorAll(PART)].find((part) => this.isSeen(part)) ?? null;
  }

  private nextSeen(cell: Element): Element | null {
    const next = cell.nextElementSibling;
    return next?.matches(CELL) && this.isSeen(next) ? next : null;
  }

  private isSeen(node: Element): boolean {
    const [page, box] = [this.page.getBoundingClientRect(), node.getBoundingClientRect()];
    return box.bottom > page.top && box.top < page.bottom;
  }
}

function topOf(node: Element): number {
  return node.getBoundingClientRect().top;
}

function heightOf(cell: Element): number {
  return cell.getBoundingClientRect().height;
}

/** The notebook scrolls by whole pixels: what is left over does not add up. */
function spotOf(node: Element | null, before?: Spot | null): Spot | null {
  if (node === null) return null;
  const top = topOf(node);
  return before?.node === node && Math.abs(before.top - top) < 1 ? before : { node, top };
}
