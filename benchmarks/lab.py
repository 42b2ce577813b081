"""Starts a JupyterLab with a notebook in Chromium, and records in the page when things happen."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import sync_playwright

from benchmarks.frame import QUIET, ModelServer, Skipped
from tests.e2e.browser import find_browser
from tests.e2e.lab import LabServer, NotebookPage
from tests.programs import wait_until

LOAD = "%load_ext agent_kernel"
UNENDING = ("--AgentKernelServer.default_budget={'steps': 10000}", "--AgentKernelServer.pause_at_repeats=False")
"""For runs that make the same call many times."""
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]
WATCH = """
window.bench = {
  seqs: [], clicks: [], token: 0, frames: [], session: 0, drawn: {}, printed: 0, plain: {},
  bytes: { kernel: 0, channel: 0 },
};
const epoch = time => performance.timeOrigin + time;
const size = data => (typeof data === 'string' ? data.length : data.byteLength ?? data.size);
const Plain = window.WebSocket;
window.WebSocket = class extends Plain {
  constructor(...given) {
    super(...given);
    const address = String(given[0]);
    if (address.includes('/api/kernels/')) {
      this.addEventListener('message', event => { bench.bytes.kernel += size(event.data); });
    }
    if (!address.includes('/agent-kernel/')) return;
    this.addEventListener('message', event => {
      bench.bytes.channel += size(event.data);
      if (!address.endsWith('/channel')) return;
      const { type, seq } = JSON.parse(event.data);
      if (type !== 'session' && type !== 'pong' && type !== 'ack') bench.seqs.push(seq);
      if (type === 'session' && !bench.session) bench.session = performance.now();
    });
  }
};
document.addEventListener('click', event => bench.clicks.push(epoch(event.timeStamp)), true);
bench.cards = () => document.querySelectorAll('[data-tool-call-id][role=group]').length;
bench.answer = () => document.querySelector('[data-role=answer]')?.textContent ?? '';
"""
FRAMES = """
const look = now => {
  bench.frames.push(now);
  if (!bench.token && bench.answer()) bench.token = epoch(performance.now());
  const cards = bench.cards();
  bench.drawn[cards] ??= now;
  const output = document.querySelector('.jp-OutputArea-output');
  bench.plain[document.querySelectorAll('.bench-plain').length] ??= now;
  if (!bench.printed && output?.textContent) bench.printed = epoch(performance.now());
  requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
"""Milliseconds: `clicks`, `token`, `printed` (a cell's first output) since the epoch; since the page began to load
`frames`, `session` (the first snapshot came) and, by their number, `drawn` (cards) and `plain` (widgets that have
nothing of the agent). All but clicks and session come from `FRAMES`. `bytes` came to the page on the kernel's WebSocket
and on the server extension's."""
_RUN_ALL = """() => {
  const begun = performance.timeOrigin + performance.now();
  void window.jupyterapp.commands.execute('notebook:run-all-cells');
  return begun;
}"""
_TIMED = """async name => {
  const begun = performance.now();
  await window.jupyterapp.commands.execute(name);
  return performance.now() - begun;
}"""
_RUN_CELL = """async index => {
  const { shell, commands } = window.jupyterapp;
  const { content, sessionContext } = shell.currentWidget;
  let ended = 0;
  const listen = (_, { header, parent_header, content }) => {
    const idle = header.msg_type === 'status' && content.execution_state === 'idle';
    if (!idle || parent_header.msg_type !== 'execute_request') return;
    const fraction = /[.][0-9]+/.exec(header.date)?.[0] ?? '';
    ended = Date.parse(header.date.replace(fraction, '')) + Number(`0${fraction}`) * 1000;
  };
  content.activeCellIndex = index;
  sessionContext.session.kernel.iopubMessage.connect(listen);
  const begun = performance.timeOrigin + performance.now();
  await commands.execute('notebook:run-cell');
  const seen = performance.timeOrigin + performance.now();
  sessionContext.session.kernel.iopubMessage.disconnect(listen);
  return [ended - begun, seen - begun];
}"""
_FETCHED = """() => performance.getEntriesByType('resource')
  .filter(({ name }) => /agent[-_]kernel/.test(new URL(name).pathname))
  .reduce((sum, { transferSize }) => sum + transferSize, 0)"""


@dataclass(frozen=True, slots=True)
class Stage:
    lab: LabServer
    notebook: NotebookPage
    model: ModelServer

    def conversation(self) -> dict[str, Any]:
        """The notebook's conversation as the server's log has it, once the run has been announced."""

        def with_kernel() -> list[dict[str, Any]]:
            return [view for view in self.lab.api("GET", "agent-kernel/api/conversations") if view["kernel_id"]]

        return wait_until(with_kernel, "the conversation")[0]

    def kernel_id(self) -> str:
        (kernel,) = self.lab.api("GET", "api/kernels")
        return str(kernel["id"])

    def look(self, script: str) -> Any:
        return self.notebook.page.evaluate(script)

    def run_all(self) -> float:
        """Press Run All; the time, in milliseconds since the epoch."""
        pressed: float = self.look(_RUN_ALL)
        return pressed

    def timed(self, command: str) -> float:
        """Milliseconds that one of JupyterLab's commands takes, as its page sees it."""
        took: float = self.look_with(_TIMED, command)
        return took

    def timed_cell(self, cell: int) -> tuple[float, float]:
        """Milliseconds from JupyterLab's command to the cell's end in the kernel, and to the command's own end."""
        in_kernel, in_page = self.look_with(_RUN_CELL, cell)
        return in_kernel, in_page

    def received(self) -> dict[str, int]:
        """The bytes that have come to the page, by the way that they took."""
        return {**self.look("() => bench.bytes"), "HTTP": self.look(_FETCHED)}

    def server_memory(self) -> int:
        """Resident memory of the server's process in bytes; Linux only."""
        (file,) = (self.lab.home / "runtime").glob("jpserver-*.json")
        status = Path(f"/proc/{json.loads(file.read_text())['pid']}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))

    @contextmanager
    def browser_held(self) -> Iterator[None]:
        """The browser's processes get no processor time."""
        held = [child for child in psutil.Process().children(recursive=True) if "chrom" in child.name().lower()]
        for process in held:
            process.suspend()
        try:
            yield
        finally:
            for process in held:
                process.resume()

    def look_with(self, script: str, argument: Any) -> Any:
        return self.notebook.page.evaluate(script, argument)

    def wait(self, script: str, seconds: float = 60) -> None:
        self.notebook.page.wait_for_function(script, timeout=seconds * 1000)

    def wait_for_end(self, seconds: float = 120) -> dict[str, Any]:
        """The conversation once its run has ended."""

        def ended() -> dict[str, Any]:
            view = self.conversation()
            return view if view["runs"] and view["runs"][-1]["ended_at"] else {}

        return wait_until(ended, "the end of the run", seconds)

    def stop(self) -> None:
        """Press Stop, and wait for the end of the run."""
        self.notebook.page.get_by_role("button", name="Stop", exact=True).first.click()
        self.wait_for_end()


@contextmanager
def stage(
    model: str,
    cells: Sequence[str],
    arguments: Sequence[str] = (),
    *,
    extension: bool = True,
    frames: bool = True,
) -> Iterator[Stage]:
    """A fresh JupyterLab, with or without the server extension. Raises `Skipped` if there is no browser.

    With `frames` the page paints all the time, in order to look at each frame: not for what else takes its processor.
    """
    browser_path = find_browser()
    if browser_path is None:
        raise Skipped("there is no browser; `python -m tests.e2e.browser` installs one")
    with (
        ModelServer() as server,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        LabServer(Path(home), server_variables(server, model), arguments=arguments, extension=extension) as lab,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=browser_path, args=CHROMIUM)
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        context.set_default_timeout(60_000)
        context.add_init_script(WATCH + FRAMES if frames else WATCH)
        path = lab.write_notebook("bench.ipynb", cells)
        yield Stage(lab, NotebookPage(lab, context.new_page(), path), server)
        lab.close_kernels()
        browser.close()


def server_variables(server: ModelServer, model: str) -> dict[str, str]:
    """Compile the packages, so that the server has cached byte code as a user's has."""
    given = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none", "AGENT_KERNEL_MODEL": model}
    return QUIET | given | {"PYTHONDONTWRITEBYTECODE": ""}
