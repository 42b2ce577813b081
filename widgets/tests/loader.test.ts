/** What a page is sent in place of the front end: where it looks for it, and what it does where that is not there. */
import { afterEach, expect, test, vi } from "vitest";
import loader from "../src/loader";
import { addressOf } from "../src/served";

const FILE = "cards-0000AAAA.js";

afterEach(() => document.body.replaceChildren());

test.each(["/", "/user/ada%40lovelace/base"])("the front end is below the server's base URL %s", (baseUrl) => {
  document.body.innerHTML = `<script type="application/json" id="jupyter-config-data">${JSON.stringify({ baseUrl })}</script>`;
  const base = new URL(baseUrl.replace(/\/?$/, "/"), "http://localhost:3000").href;
  expect(addressOf(FILE)).toBe(`${base}agent-kernel/static/${FILE}`);
});

test("where the server does not have it, the kernel is asked, and a person hears where that is silent too", async () => {
  vi.useFakeTimers();
  const sent: unknown[] = [];
  const model = { get: () => "run_1", on: () => undefined, send: (content: unknown) => void sent.push(content) };
  const el = document.body.appendChild(document.createElement("div"));
  const close = loader.render({ model, el });
  await vi.advanceTimersByTimeAsync(100);
  expect([el.textContent, ...sent]).toEqual(["", { wants: "front_end" }]);
  await vi.advanceTimersByTimeAsync(5_000);
  const help = "Try again, reload the page, or stop the Jupyter server and start it again, which ends its kernels.";
  expect(el.querySelector("[role=alert]")?.textContent).toContain(help);
  el.querySelector("button")?.click();
  expect(el.textContent).toBe("");
  await vi.advanceTimersByTimeAsync(100);
  expect(sent).toHaveLength(2);
  close();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(el.textContent, "of a view that is gone nothing is said").toBe("");
  vi.useRealTimers();
});
