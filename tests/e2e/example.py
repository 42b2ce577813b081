"""The example page of the AI SDK: its own command, the notebook that it opens, and that notebook's kernel."""

import json
import re
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from jupyter_client.blocking.client import BlockingKernelClient

from tests.ports import free_port
from tests.programs import Program, private_home

FOLDER = Path(__file__).parents[2] / "examples" / "ai-sdk"
BUILT = FOLDER / "dist"
_LAB = ("--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None", "--LabApp.extension_manager=readonly")


class Example:
    """What `npm start` starts, with a private home."""

    def __init__(self, home: Path) -> None:
        assert (BUILT / "index.html").exists(), "The page is not built: make examples/ai-sdk/dist/index.html"
        self.root = home / "notebooks"
        self.notebook = self.root / "penguins.ipynb"
        self._runtime = home / "runtime"
        options = ("--built", f"--port={free_port()}", f"--directory={self.root}", "--", *_LAB)
        command = [sys.executable, str(FOLDER / "start.py"), *options]
        self._program = Program(command, home / "example.log", home, private_home(home))
        self.url = self._program.wait_until(lambda: self._printed("The page"), "the page's address")
        notebook = self._program.wait_until(lambda: self._printed("The notebook"), "the notebook's address")
        self._server, _, rest = notebook.partition("/lab/")
        self._token = rest.partition("token=")[2]

    def _printed(self, name: str) -> str | None:
        found = re.search(rf"^{name}: +(\S+)\n", self._program.log_text(), re.MULTILINE)
        return found[1] if found else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._program.stop()

    def log_text(self) -> str:
        return self._program.log_text()

    def page_url(self, path: Path) -> str:
        """Where a person finds a notebook."""
        return f"{self._server}/lab/tree/{path.relative_to(self.root)}?token={self._token}"

    def api(self, method: str, path: str) -> Any:
        """JSON from the Jupyter server."""
        headers = {"Authorization": f"token {self._token}"}
        request = urllib.request.Request(f"{self._server}/{path}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            text = response.read()
        return json.loads(text) if text else None

    @contextmanager
    def kernel(self) -> Iterator["ExampleKernel"]:
        """The notebook's kernel."""
        [session] = self.api("GET", "api/sessions")
        client = BlockingKernelClient(connection_file=str(self._runtime / f"kernel-{session['kernel']['id']}.json"))
        client.load_connection_file()
        client.start_channels()
        client.wait_for_ready(timeout=60)  # what is printed before the kernel is heard would be lost
        yield ExampleKernel(client)
        client.stop_channels()


class ExampleKernel:
    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client

    def run(self, code: str) -> str:
        """Run code as another page would. Returns what it printed."""
        printed: list[str] = []

        def take(message: dict[str, Any]) -> None:
            printed.append(message["content"].get("text", ""))

        reply = self._client.execute_interactive(code, output_hook=take, timeout=60)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(printed).strip()
