/** The parts of a notebook's renderers and widget manager that outputs are drawn with. JupyterLab and Notebook 7 have
 * both; other front ends of ipywidgets have the manager alone. None of it is imported: what is there is asked for. */

export type Bundle = Readonly<Record<string, unknown>>;

/** JupyterLab's `IRenderMimeRegistry`. */
export interface Rendermime {
  readonly latexTypesetter?: { typeset(node: HTMLElement): unknown } | null;
  preferredMimeType(bundle: Bundle, safe: "any"): string | undefined;
  createRenderer(mimeType: string): Renderer;
  createModel(options: { data: Bundle; metadata: Bundle; trusted: boolean }): unknown;
}

/** A Lumino widget, which needs messages when it comes into the page and when its size changes. */
export interface LuminoWidget {
  readonly node: HTMLElement;
  readonly isDisposed: boolean;
  processMessage(message: object): void;
  dispose(): void;
}

export interface Renderer extends LuminoWidget {
  renderModel(model: unknown): Promise<void>;
}

/** ipywidgets' `ManagerBase`. */
export interface WidgetManager {
  readonly rendermime?: Rendermime;
  has_model?(id: string): boolean;
  get_model?(id: string): Promise<unknown> | undefined;
  create_view?(model: unknown): Promise<WidgetView>;
}

export interface WidgetView {
  readonly luminoWidget?: LuminoWidget;
  /** Its name in ipywidgets 7. */
  readonly pWidget?: LuminoWidget;
}

export const WIDGET_VIEW = "application/vnd.jupyter.widget-view+json";
export const GONE =
  "This widget is not in the kernel any more, or was never sent to this page. Run its code again for a new one.";

/** Forms that cards show by themselves, as well as any renderer: they need no script and no room of their own. */
const OWN = new Set(["text/plain", "image/png", "image/jpeg"]);

/** The MIME type by which the notebook's renderers draw a bundle, or `null` where cards show it themselves. */
export function drawnMime(manager: WidgetManager | undefined, data: Bundle): string | null {
  if (WIDGET_VIEW in data && manager?.create_view !== undefined && manager.get_model !== undefined) return WIDGET_VIEW;
  const mime = manager?.rendermime?.preferredMimeType(data, "any");
  return mime === undefined || OWN.has(mime) || mime === WIDGET_VIEW ? null : mime;
}

/** Puts a widget into an element, or takes it out, as `Widget.attach` and `detach` do: its own library is not ours. */
export function attach(widget: LuminoWidget, host: HTMLElement): void {
  send(widget, "before-attach");
  host.append(widget.node);
  send(widget, "after-attach");
}

export function detach(widget: LuminoWidget): void {
  send(widget, "before-detach");
  widget.node.remove();
  send(widget, "after-detach");
}

/** The room of a widget has changed, or was none before. */
export function resized(widget: LuminoWidget): void {
  send(widget, "resize", { width: -1, height: -1 });
}

function send(widget: LuminoWidget, type: string, fields: object = {}): void {
  if (!widget.isDisposed) widget.processMessage({ type, isConflatable: false, conflate: () => false, ...fields });
}

/** What other pages typeset formulas with. */
interface MathPage {
  readonly MathJax?: { typesetPromise?(nodes: Element[]): Promise<unknown> };
  readonly katex?: { render(tex: string, element: Element, options: object): void };
}

/** Typesets the formulas in an element: by JupyterLab's and Notebook's own typesetter, else the page's MathJax or KaTeX. */
export function typesetIn(element: Element, manager: WidgetManager | undefined): void {
  const formulas = [...element.querySelectorAll<HTMLElement>(".ak-formula:not([data-typeset])")];
  // A view comes into the page after it was rendered.
  if (formulas.length > 0) requestAnimationFrame(() => formulas.forEach((formula) => typeset(formula, manager)));
}

/** Of the formula alone: what stands around it may be money. */
function typeset(formula: HTMLElement, manager: WidgetManager | undefined): void {
  const page = globalThis as MathPage;
  const own = manager?.rendermime?.latexTypesetter;
  formula.dataset.typeset = "";
  try {
    if (own) void own.typeset(formula);
    else if (page.MathJax?.typesetPromise) page.MathJax.typesetPromise([formula]).catch(ignore);
    else if (page.katex) renderWithKatex(formula, page.katex);
    else delete formula.dataset.typeset;
  } catch (error) {
    ignore(error);
  }
}

function renderWithKatex(formula: HTMLElement, katex: NonNullable<MathPage["katex"]>): void {
  const displayMode = formula.dataset.display !== undefined;
  const marks = displayMode ? 2 : 1;
  katex.render(formula.textContent.slice(marks, -marks), formula, { displayMode, throwOnError: false, trust: false });
}

/** Formulas that can't be typeset stay as they were written. */
function ignore(error: unknown): void {
  console.warn("Agent Kernel: a formula was not typeset.", error);
}
