/** Formulas, typeset by what the page has: JupyterLab's and Notebook's own typesetter, else its MathJax or KaTeX. */

/** The part of JupyterLab's widget manager that is used here. */
export interface TypesettingManager {
  readonly rendermime?: { readonly latexTypesetter?: { typeset(node: HTMLElement): unknown } | null };
}

interface MathPage {
  readonly MathJax?: { typesetPromise?(nodes: Element[]): Promise<unknown>; Hub?: { Queue(work: unknown[]): void } };
  readonly katex?: { render(tex: string, element: Element, options: object): void };
}

const FRAMES_TO_WAIT = 120;

/** Typesets the formulas in an element, as soon as that is in the page. */
export function typesetterOf(manager: TypesettingManager | undefined): (element: Element) => void {
  return (element) => {
    const formulas = [...element.querySelectorAll<HTMLElement>(".ak-formula:not([data-typeset])")];
    if (formulas.length > 0) whenInPage(element, () => formulas.forEach((formula) => typeset(formula, manager)));
  };
}

function whenInPage(element: Element, then: () => void, frames = FRAMES_TO_WAIT): void {
  if (element.isConnected) then();
  else if (frames > 0) requestAnimationFrame(() => whenInPage(element, then, frames - 1));
}

/** Of the formula alone: what stands around it may be money. */
function typeset(formula: HTMLElement, manager: TypesettingManager | undefined): void {
  const page = globalThis as MathPage;
  const own = manager?.rendermime?.latexTypesetter;
  formula.dataset.typeset = "";
  try {
    if (own) void own.typeset(formula);
    else if (page.MathJax?.typesetPromise) page.MathJax.typesetPromise([formula]).catch(ignore);
    else if (page.MathJax?.Hub) page.MathJax.Hub.Queue(["Typeset", page.MathJax.Hub, formula]);
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
