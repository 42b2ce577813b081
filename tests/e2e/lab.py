"""A real JupyterLab (or Notebook, or bare server) with a private home, and what a person does in it."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import nbformat
from playwright.sync_api import Locator, Page, expect

from tests.ports import free_port
from tests.programs import Program, private_home, wait_until

App = Literal["jupyterlab", "notebook", "jupyter_server"]
TOKEN = "a-token-of-the-tests"
LOAD_READY = (
    "%load_ext agent_kernel\n"
    "import agent_kernel.notebook.offered_tools, agent_kernel.notebook.execution.runner, ipywidgets"
)
"""With what a new kernel would import while it is asked for its first diff: a card waits two seconds for one."""
SETTINGS: dict[str, dict[str, Any]] = {
    "@jupyterlab/apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    # Outputs off screen are rendered too, so that a test need not scroll.
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
}
_CLOSE = """
  for (const widget of [...(window.jupyterapp?.shell.widgets('main') ?? [])]) {
    if (widget.context) widget.context.model.dirty = false; // else it would ask
    widget.close();
  }
  window.jupyterapp?.shell.collapseRight?.();
"""
_FOLD_PANEL = (
    "for (const head of document.querySelectorAll('.agent-kernel-run-head[aria-expanded=true]')) head.click();"
)
"""A hidden side panel keeps the cards of the runs that were opened in it."""
_OPEN = (
    """async ([url, path]) => {
  const app = window.jupyterapp;
  const own = app?.name === 'JupyterLab' && new URL(url).origin === location.origin;
  if (!own || !app.commands.hasCommand('docmanager:open')) return false;"""
    + _CLOSE
    + """  await app.commands.execute('docmanager:open', { path });
  return true;
}"""
)
_READY = """path => {
  const widget = window.jupyterapp?.shell?.currentWidget;
  return Boolean(widget?.content?.widgets && widget.sessionContext && widget.context.path === path);
}"""
KERNEL_SECONDS = 60
_KERNEL_READY = """async seconds => {
  const widget = window.jupyterapp.shell.currentWidget;
  const heard = async () => {
    await widget.context.ready;
    await widget.sessionContext.ready;
    await widget.sessionContext.session.kernel.info;
  };
  const late = new Error(`no kernel was heard within ${seconds} s`);
  await Promise.race([heard(), new Promise((_, reject) => setTimeout(reject, 1000 * seconds, late))]);
}"""
_RUN_CELL = """async ([index, wait]) => {
  const { shell, commands } = window.jupyterapp;
  shell.currentWidget.content.activeCellIndex = index;
  const done = commands.execute('notebook:run-cell');
  if (wait) await done;
}"""
_COMMAND = "async ([name, args]) => { await window.jupyterapp.commands.execute(name, args); }"
_START = "name => { void window.jupyterapp.commands.execute(name).catch(() => null); }"
_IDLE = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'"
_OUTPUTS = "index => window.jupyterapp.shell.currentWidget.content.widgets[index].model.sharedModel.getOutputs()"
_SOURCES = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.sharedModel.getSource())"
_SET_SOURCE = """([index, source]) => {
  window.jupyterapp.shell.currentWidget.content.widgets[index].model.sharedModel.setSource(source);
}"""
_ACTIVATE = "index => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = index; }"
_TRUSTED = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.trusted)"
_PROMPT = "index => window.jupyterapp.shell.currentWidget.content.widgets[index].model.executionCount"


class LabServer:
    """A Jupyter server as a program of its own, on a port of its own choice."""

    def __init__(
        self,
        home: Path,
        variables: Mapping[str, str],
        *,
        app: App = "jupyterlab",
        arguments: Sequence[str] = (),
        token: str = TOKEN,
        extension: bool = True,
        python: str = sys.executable,
    ) -> None:
        """`arguments` come after the usual ones; `token` is "" where people log in otherwise; `python` runs it."""
        self.home = home
        self._extension = extension
        self._python = python
        self.app = app
        self.token = token
        self.root = home / "notebooks"
        self.root.mkdir(parents=True)
        self._port = free_port()
        self._arguments = arguments
        self._variables = variables
        for plugin, settings in SETTINGS.items():
            file = home / "lab-settings" / f"{plugin}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(settings))
        self._start()

    def _start(self) -> None:
        command = [*self._command(), *self._arguments]
        variables = {**private_home(self.home), **self._variables}
        self._program = Program(command, self.home / "server.log", self.root, variables)
        self.url = self._program.wait_until(self._find_url, "the server's info file")
        self._program.wait_until(self._answers, "the server to answer")

    def kill(self) -> None:
        """The server ends without a chance to do anything."""
        self._program.kill()

    def start_again(self) -> None:
        """After `kill`: the same server, at the same address."""
        for file in (self.home / "runtime").glob("jpserver-*"):
            file.unlink()
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._program.stop()

    def _command(self) -> list[str]:
        command = [
            *(self._python, "-m", self.app, "--allow-root", "--no-browser", "--ip=127.0.0.1"),
            *(f"--port={self._port}", "--ServerApp.port_retries=0"),
            *([f"--IdentityProvider.token={self.token}"] if self.token else []),
            f"--ServerApp.root_dir={self.root}",
            f"--ServerApp.jpserver_extensions={self._extensions()}",
        ]
        # A trait that an application does not know would switch it off.
        if self.app == "notebook":
            command += ["--JupyterNotebookApp.expose_app_in_browser=True"]
        if self.app == "jupyterlab":
            command += [
                "--LabApp.expose_app_in_browser=True",
                "--LabApp.news_url=None",
                "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
                "--LabApp.extension_manager=readonly",
            ]
        return command

    def _extensions(self) -> dict[str, bool]:
        # What is installed is on by itself: a bare server has it switched off, and starts in half the time.
        others = ("jupyterlab", "notebook", "jupyter_lsp", "jupyter_server_terminals", "notebook_shim")
        bare = self.app == "jupyter_server"
        return {"agent_kernel_server": self._extension, **(dict.fromkeys(others, False) if bare else {})}

    def _find_url(self) -> str | None:
        for file in (self.home / "runtime").glob("jpserver-*.json"):
            try:
                info = json.loads(file.read_text())
            except ValueError:
                return None  # still being written
            return f"http://127.0.0.1:{info['port']}{info['base_url']}"
        return None

    def _answers(self) -> bool:
        try:
            self.api("GET", "api/status")
        except urllib.error.HTTPError as refused:
            return refused.code == 403  # it wants a password
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def log_text(self) -> str:
        return self._program.log_text()

    def api(self, method: str, path: str, body: object = None) -> Any:
        """JSON from the server's HTTP interface, as the user."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            text = response.read()
        return json.loads(text) if text else None

    def write_notebook(self, name: str, cells: Sequence[str]) -> Path:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        path = self.root / name
        nbformat.write(notebook, path)
        return path

    def page_url(self, path: Path) -> str:
        """Where a person finds a notebook."""
        place = "notebooks" if self.app == "notebook" else "doc/tree"
        token = f"?token={self.token}" if self.token else ""
        return f"{self.url}{place}/{path.relative_to(self.root)}{token}"

    def close_kernels(self) -> None:
        # Not by their sessions: several notebooks may have one kernel.
        for kernel in self.api("GET", "api/kernels"):
            self.api("DELETE", f"api/kernels/{kernel['id']}")


def close_notebooks(page: Page) -> None:
    page.evaluate(f"() => {{{_CLOSE}{_FOLD_PANEL}}}")


class Places(Protocol):
    """A server that has notebooks."""

    root: Path

    def page_url(self, path: Path) -> str: ...


class NotebookPage:
    """One notebook in one page, and what a person sees and does there."""

    def __init__(self, lab: Places, page: Page, path: Path) -> None:
        """Opens it where the page shows JupyterLab already, in place of what is open there."""
        self.lab, self.page, self.path = lab, page, path
        url = lab.page_url(path)
        if not page.evaluate(_OPEN, [url, self._name]):
            page.goto(url)
        self._wait_for_kernel()

    @property
    def _name(self) -> str:
        return str(self.path.relative_to(self.lab.root))

    def _wait_for_kernel(self) -> None:
        self.page.wait_for_function(_READY, arg=self._name, timeout=60_000)
        self.wait_until_heard()

    def wait_until_heard(self, seconds: float = KERNEL_SECONDS) -> None:
        """Wait until the kernel has answered the page; Playwright's `Error` says so where it does not."""
        self.page.evaluate(_KERNEL_READY, seconds)

    def reload(self) -> None:
        self.page.reload()
        self._wait_for_kernel()

    def run(self, index: int, *, wait: bool = True) -> None:
        """Run a cell; `wait` until it has ended."""
        self.page.evaluate(_RUN_CELL, [index, wait])

    def run_through(self, index: int) -> None:
        for position in range(index + 1):
            self.run(position)

    def command(self, name: str, **arguments: Any) -> None:
        self.page.evaluate(_COMMAND, [name, arguments])

    def start(self, name: str) -> None:
        """A command whose end is not waited for, nor whether it fails."""
        self.page.evaluate(_START, name)

    def activate(self, index: int) -> None:
        """Make this cell the active one, which commands are about."""
        self.page.evaluate(_ACTIVATE, index)

    def sources(self) -> list[str]:
        sources: list[str] = self.page.evaluate(_SOURCES)
        return sources

    def set_source(self, index: int, source: str) -> None:
        self.page.evaluate(_SET_SOURCE, [index, source])

    def trusted(self) -> list[bool]:
        """Of each cell."""
        trusted: list[bool] = self.page.evaluate(_TRUSTED)
        return trusted

    def outputs(self, index: int) -> list[dict[str, Any]]:
        outputs: list[dict[str, Any]] = self.page.evaluate(_OUTPUTS, index)
        return outputs

    def text(self, index: int) -> str:
        """What a cell printed and its last value, as plain text."""
        parts = [
            output.get("text") or output.get("data", {}).get("text/plain", "") or output.get("evalue", "")
            for output in self.outputs(index)
        ]
        return "".join("".join(part) for part in parts).strip()

    def run_until(self, index: int, text: str) -> None:
        """Run a cell until it says this: the kernel may hear later than the page of a run's end, or, because JupyterLab
        sends those over a subshell, of a widget's change."""

        def says_it() -> bool:
            self.run(index)
            return self.text(index) == text

        wait_until(says_it, f"cell {index} to say {text}")

    def wait_until_idle(self) -> None:
        """Wait until the kernel runs no cell, as the page knows it."""
        self.page.wait_for_function(_IDLE)

    def prompt_number(self, index: int) -> int:
        number: int = self.page.evaluate(_PROMPT, index)
        return number

    def save(self) -> nbformat.NotebookNode:
        """Save as the user does, and read the file."""
        self.command("docmanager:save")
        saved: nbformat.NotebookNode = nbformat.read(self.path, as_version=4)
        return saved

    def cards(self) -> Locator:
        return self.page.locator(".jp-Notebook [data-tool-call-id][role=group]")

    def card(self, index: int = 0) -> Locator:
        return self.cards().nth(index)

    def record(self) -> Locator:
        """The outputs of a cell whose run has ended: the record, and what its calls have shown below it."""
        return self.page.locator(".jp-OutputArea:has([data-agent-record])")

    def wait_for_state(self, state: str, card: int = 0, seconds: float = 60) -> None:
        expect(self.card(card)).to_have_attribute("data-state", state, timeout=seconds * 1000)

    def wait_for_end(self) -> None:
        """Wait until a run has ended, which comes after the last word of its answer."""
        expect(self.page.locator(".ak-run[data-status=complete], .agent-record").first).to_be_visible(timeout=60_000)

    def press(self, name: str, card: int = 0) -> None:
        """Press one of a card's buttons, as soon as it is there and takes clicks."""
        self.card(card).get_by_role("button", name=name, exact=True).click()

    def press_until_reason(self, reason: str, card: int = 0) -> None:
        """Deny with a reason, straight after another decision: for 0.4 s the other cards ignore clicks on purpose."""
        field = self.card(card).get_by_role("textbox", name="Reason")

        def opened() -> bool:
            if not field.is_visible():
                self.press("Deny", card)
            return field.is_visible()

        wait_until(opened, "the field for a reason")
        field.fill(reason)
        field.press("Enter")
