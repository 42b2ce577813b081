"""Starts a JupyterLab with a notebook in Chromium, and records in the page when things happen."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.frame import ModelServer, WorkerFailed, environment
from tests.e2e.browser import find_browser
from tests.e2e.lab import LabServer, NotebookPage
from tests.programs import wait_until

LOAD = "%load_ext agent_kernel"
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]
WATCH = """
window.bench = { seqs: [], clicks: [], enters: [], token: 0, frames: [], session: 0, drawn: {} };
const epoch = time => performance.timeOrigin + time;
const Plain = window.WebSocket;
window.WebSocket = class extends Plain {
  constructor(...given) {
    super(...given);
    if (!String(given[0]).includes('/agent-kernel/')) return;
    this.addEventListener('message', event => {
      const { type, seq } = JSON.parse(event.data);
      if (type !== 'session' && type !== 'pong' && type !== 'ack') bench.seqs.push(seq);
      if (type === 'session' && !bench.session) bench.session = performance.now();
    });
  }
};
document.addEventListener('click', event => bench.clicks.push(epoch(event.timeStamp)), true);
document.addEventListener('keydown', event => event.key === 'Enter' && bench.enters.push(epoch(event.timeStamp)), true);
bench.cards = () => document.querySelectorAll('[data-tool-call-id][role=group]').length;
bench.answer = () => document.querySelector('[data-role=answer]')?.textContent ?? '';
const look = now => {
  bench.frames.push(now);
  if (!bench.token && bench.answer()) bench.token = epoch(performance.now());
  const cards = bench.cards();
  if (!bench.firstCard && cards) bench.firstCard = now;
  bench.drawn[cards] ??= now;
  requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
"""Milliseconds: `clicks`, `enters`, `token` since the epoch; since the page began to load `frames`, `firstCard`,
`session` (the first snapshot came) and `drawn` (by number of cards)."""


@dataclass(frozen=True, slots=True)
class Stage:
    lab: LabServer
    notebook: NotebookPage
    model: ModelServer

    def conversation(self) -> dict[str, Any]:
        """The notebook's conversation as the server's log has it."""
        views: list[dict[str, Any]] = self.lab.api("GET", "agent-kernel/api/conversations")
        return views[0]

    def look(self, script: str) -> Any:
        return self.notebook.page.evaluate(script)

    def wait(self, script: str, seconds: float = 60) -> None:
        self.notebook.page.wait_for_function(script, timeout=seconds * 1000)

    def wait_for_end(self, seconds: float = 120) -> dict[str, Any]:
        """The conversation once its run has ended."""

        def ended() -> dict[str, Any]:
            view = self.conversation()
            return view if view["runs"] and view["runs"][-1]["ended_at"] else {}

        return wait_until(ended, "the end of the run", seconds)

    def wait_for_requests(self, count: int, seconds: float = 120) -> list[dict[str, Any]]:
        """The requests to the model, once that many have arrived."""

        def enough() -> list[dict[str, Any]]:
            requests = self.model.requests()
            return requests if len(requests) >= count else []

        return wait_until(enough, f"{count} requests", seconds)


@contextmanager
def stage(model: str, cells: Sequence[str], arguments: Sequence[str] = ()) -> Iterator[Stage]:
    """Find the browser. Raises `WorkerFailed` if there is none."""
    browser_path = find_browser()
    if browser_path is None:
        raise WorkerFailed("No browser: run `python -m tests.e2e.browser`, which installs one.")
    with (
        ModelServer() as server,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        LabServer(Path(home), _variables(server, model), arguments=arguments) as lab,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=browser_path, args=CHROMIUM)
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        context.set_default_timeout(60_000)
        context.add_init_script(WATCH)
        path = lab.write_notebook("bench.ipynb", cells)
        yield Stage(lab, NotebookPage(lab, context.new_page(), path), server)
        lab.close_kernels()
        browser.close()


def _variables(server: ModelServer, model: str) -> dict[str, str]:
    """Compile the packages, so that the server has cached byte code as a user's has."""
    given = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none", "AGENT_KERNEL_MODEL": model}
    return environment(PYTHONDONTWRITEBYTECODE="") | given
