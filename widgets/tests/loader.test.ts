/** What a page is sent in place of the front end: where it looks for it, and what it does where that is not there. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import loader from "../src/loader";
import { addressOf } from "../src/served";

const FILE = "cards-0000AAAA.js";
const sent: unknown[] = [];
const receivers = new Set<(message: unknown) => void>();
const model = {
  get: () => "run_1",
  on: (_: string, callback: (message: unknown) => void) => void receivers.add(callback),
  off: (_: string, callback: (message: unknown) => void) => void receivers.delete(callback),
  send: (content: unknown) => void sent.push(content),
};
let close = (): void => undefined;

function render(): HTMLElement {
  const el = document.body.appendChild(document.createElement("div"));
  close = loader.render({ model, el });
  return el;
}

function pageOf(config: object | null): void {
  document.body.innerHTML =
    config === null
      ? ""
      : `<script type="application/json" id="jupyter-config-data">${JSON.stringify(config)}</script>`;
}

beforeEach(() => {
  vi.useFakeTimers();
  sent.length = 0;
});

afterEach(() => {
  close();
  vi.useRealTimers();
  document.body.replaceChildren();
});

describe("the front end is looked for", () => {
  test.each(["/", "/user/ada%40lovelace/base"])("below the server's base URL %s", (baseUrl) => {
    pageOf({ baseUrl });
    const base = new URL(baseUrl.replace(/\/?$/, "/"), "http://localhost:3000").href;
    expect(addressOf(FILE)).toBe(`${base}agent-kernel/static/${FILE}`);
  });

  test("nowhere in a page that is of no Jupyter server", () => {
    pageOf(null);
    expect(() => addressOf(FILE)).toThrow();
    pageOf({ token: "t" });
    expect(() => addressOf(FILE)).toThrow();
  });
});

describe("where the page has no server with this version", () => {
  beforeEach(() => pageOf(null));

  test("the kernel is asked for all of it, and a person is told what to do when it does not answer either", async () => {
    const el = render();
    await vi.advanceTimersByTimeAsync(100);
    expect([el.textContent, ...sent]).toEqual(["", { wants: "front_end" }]);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(el.querySelector("[role=alert]")?.textContent).toContain(
      "Try again, reload the page, or stop the Jupyter server and start it again, which ends its kernels.",
    );
    el.querySelector("button")?.click();
    expect(el.textContent).toBe("");
    await vi.advanceTimersByTimeAsync(100);
    expect(sent).toHaveLength(2);
  });

  test("a view that is taken away waits for nothing", async () => {
    const el = render();
    await vi.advanceTimersByTimeAsync(100);
    for (const receive of receivers) receive({ frames: ["{}"] });
    expect(receivers.size, "other messages are no answer").toBe(1);
    close();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(el.textContent).toBe("");
    expect(receivers.size).toBe(0);
  });
});
