/** Cleans what comes from a model or a kernel, which is never trusted: no script, no style, no ids, and nothing loaded from elsewhere. */
import DOMPurify, { type Config, type DOMPurify as Purifier } from "dompurify";

/** An image from elsewhere would carry whatever its address says out of the notebook, so only inline ones are shown. */
const INLINE_IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*$/;
const LINK = /^(?:https?:|mailto:)/i;

const HTML: Config = {
  ALLOWED_TAGS: (
    "a abbr b bdi bdo blockquote br caption cite code col colgroup dd del details dfn div dl dt em figcaption figure " +
    "h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q rp rt ruby s samp small span strong sub summary sup " +
    "table tbody td tfoot th thead time tr tt u ul var wbr #text"
  ).split(" "),
  ALLOWED_ATTR: "href src alt title colspan rowspan scope align width height start open lang dir".split(" "),
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

const SVG: Config = {
  USE_PROFILES: { svg: true, svgFilters: true },
  ADD_TAGS: ["use"],
  ADD_ATTR: ["href", "xlink:href", "clip-path", "xmlns:xlink"],
  ALLOW_DATA_ATTR: false,
};

const htmlPurifier = purifier((node) => {
  if (node.tagName === "IMG" && !INLINE_IMAGE.test(node.getAttribute("src") ?? "")) replaceByText(node);
  if (node.tagName === "A") openElsewhere(node);
});

const svgPurifier = purifier((node) => {
  for (const name of ["href", "xlink:href"]) {
    const target = node.getAttribute(name);
    if (target !== null && !target.startsWith("#") && !INLINE_IMAGE.test(target)) node.removeAttribute(name);
  }
});

export function safeHtml(html: string): string {
  return htmlPurifier.sanitize(html, HTML);
}

/** A `data:` address of a cleaned drawing. As an image, what is left of it can neither run nor load anything. */
export function svgAddress(svg: string): string | null {
  const clean = svgPurifier.sanitize(svg, { ...SVG, RETURN_DOM_FRAGMENT: true }).querySelector("svg");
  if (clean === null) return null;
  const text = new XMLSerializer().serializeToString(clean);
  return `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

/** A `data:` address of a base64 image, or `null` where the text is anything else. */
export function imageAddress(mime: string, base64: unknown): string | null {
  if (typeof base64 !== "string") return null;
  const address = `data:${mime};base64,${base64.replaceAll(/\s/g, "")}`;
  return INLINE_IMAGE.test(address) ? address : null;
}

function purifier(check: (node: Element) => void): Purifier {
  const made = DOMPurify(window);
  made.addHook("afterSanitizeAttributes", check);
  return made;
}

function replaceByText(image: Element): void {
  image.replaceWith(image.ownerDocument.createTextNode(image.getAttribute("alt") ?? ""));
}

function openElsewhere(link: Element): void {
  if (!LINK.test(link.getAttribute("href") ?? "")) {
    link.removeAttribute("href");
    return;
  }
  link.setAttribute("target", "_blank");
  link.setAttribute("rel", "noopener noreferrer");
}
