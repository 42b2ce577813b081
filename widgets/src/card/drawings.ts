/** An output drawn by the notebook's renderers, in an element that is its own. */
import {
  attach,
  detach,
  GONE,
  resized,
  WIDGET_VIEW,
  type Bundle,
  type LuminoWidget,
  type Renderer,
  type WidgetManager,
} from "./notebookRenderers";
import type { DisplayBlock } from "../state/outputs";

/** The time (ms) that a widget's model may take to come, from the kernel or after a reload, before it counts as absent. */
const MODEL_MS = 5_000;
const LOOK_MS = 100;
/** A kernel that is busy may send it later still. */
const LATE_LOOK_MS = 2_000;

/** A snapshot brings the same outputs as new objects, and a widget goes on when its text is told again. */
function isSame(one: Bundle | null, other: Bundle, mime: string): boolean {
  const [old, now] = mime === WIDGET_VIEW ? [one?.[mime], other[mime]] : [one, other];
  return JSON.stringify(old) === JSON.stringify(now);
}

export class Drawing {
  private widget: LuminoWidget | null = null;
  private mime: string | null = null;
  private data: Bundle | null = null;
  /** Counts what was asked for: an earlier attempt that ends late shows nothing. */
  private attempt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly sizes =
    typeof ResizeObserver === "undefined" ? null : new ResizeObserver(() => this.widget && resized(this.widget));

  constructor(
    private readonly host: HTMLElement,
    private readonly manager: WidgetManager,
  ) {
    this.sizes?.observe(host);
  }

  draw(block: DisplayBlock, mime: string): void {
    const same = this.data === block.data || (this.mime === mime && isSame(this.data, block.data, mime));
    this.data = block.data;
    if (same) return;
    const again = this.mime === mime && mime !== WIDGET_VIEW && this.widget !== null;
    this.mime = mime;
    const attempt = (this.attempt += 1);
    clearTimeout(this.timer);
    if (!again) this.replace(null);
    const drawn = mime === WIDGET_VIEW ? this.drawWidget(attempt) : this.drawData(block, mime);
    drawn.catch((error: unknown) => {
      console.warn(`Agent Kernel: ${mime} could not be drawn.`, error);
      if (attempt === this.attempt) this.say(`The notebook could not draw this ${mime}.`);
    });
  }

  dispose(): void {
    this.attempt += 1;
    clearTimeout(this.timer);
    this.sizes?.disconnect();
    this.replace(null);
  }

  private async drawData(block: DisplayBlock, mime: string): Promise<void> {
    const rendermime = this.manager.rendermime;
    if (rendermime === undefined) return;
    const renderer = (this.widget as Renderer | null) ?? rendermime.createRenderer(mime);
    if (this.widget === null) {
      renderer.node.classList.add("jp-OutputArea-output");
      this.replace(renderer);
    }
    // An approved call's output is trusted as that of a cell which the person ran: see docs/security/records.md.
    await renderer.renderModel(rendermime.createModel({ data: block.data, metadata: block.metadata, trusted: true }));
  }

  /** The display travels another way than the widget's model, and may be here first. */
  private async drawWidget(attempt: number, since = Date.now()): Promise<void> {
    const reference = this.data?.[WIDGET_VIEW] as { model_id?: unknown } | undefined;
    const id = typeof reference?.model_id === "string" ? reference.model_id : "";
    const model = await this.modelOf(id);
    if (attempt !== this.attempt) return;
    if (model === undefined) {
      const late = Date.now() - since > MODEL_MS;
      this.say(late ? GONE : "Loading the widget…");
      this.timer = setTimeout(
        () => void this.drawWidget(attempt, since).catch(() => this.say(GONE)),
        late ? LATE_LOOK_MS : LOOK_MS,
      );
      return;
    }
    const view = await this.manager.create_view?.(model);
    const widget = view?.luminoWidget ?? view?.pWidget;
    if (attempt !== this.attempt) widget?.dispose();
    else if (widget !== undefined) this.replace(widget);
  }

  private async modelOf(id: string): Promise<unknown> {
    if (this.manager.has_model?.(id) === false) return undefined;
    try {
      return await this.manager.get_model?.(id);
    } catch {
      return undefined; // as ipywidgets says that there is none
    }
  }

  private replace(widget: LuminoWidget | null): void {
    const old = this.widget;
    this.widget = widget;
    if (old !== null && !old.isDisposed) {
      // Not by itself: it would take its node out of the page, and be surprised that it is not there.
      detach(old);
      old.dispose();
    }
    this.host.textContent = "";
    if (widget !== null) attach(widget, this.host);
  }

  private say(note: string): void {
    if (this.widget !== null) this.replace(null);
    const plain = this.data?.["text/plain"];
    this.host.textContent = typeof plain === "string" && plain !== "" ? `${plain.slice(0, 2_000)}\n${note}` : note;
  }
}
