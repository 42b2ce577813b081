"""Starts this example with one command: a Jupyter server with a notebook and its kernel, and the page beside it.

`npm start` runs this file with `python3`; any Python that has Agent Kernel will do. Ctrl+C ends what was started.
"""

import argparse
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "notebooks" / "data"
NOTEBOOK = "penguins.ipynb"
LOAD = 'import pandas as pd\n\npenguins = pd.read_csv("data/penguins.csv")'
ASK = "%%agent --model demo\nWhat is in `penguins`? Compare the species, and say what is missing."
SECONDS = 90


def main() -> int:
    options = _options()
    if importlib.util.find_spec("agent_kernel_server") is None:
        print(f"{sys.executable} has no Agent Kernel. Install it: pip install '.[demo]' from a clone.", file=sys.stderr)
        return 1
    _install()
    _write_notebook(options.directory)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    page, token = f"http://127.0.0.1:{options.port}", secrets.token_urlsafe(24)
    with ExitStack() as started:
        server = start_server(started, options.directory, page, token, options.jupyter)
        kernel_id = open_notebook(server, token)
        load_data(kernel_id)
        start_page(started, options.port, built=options.built)
        given = {"server": server, "token": token, "notebook": NOTEBOOK, "model": options.model}
        print(f"The page:      {page}/#{urllib.parse.urlencode(given)}", flush=True)
        print(f"The notebook:  {server}/lab/tree/{NOTEBOOK}?token={token}", flush=True)
        print("Ctrl+C ends both.", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print()
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Start the example: a Jupyter server, and the page.")
    parser.add_argument("--port", type=int, default=5173, help="the page's (%(default)s)")
    parser.add_argument("--model", default="demo", help="a recording, without a key; or a model of yours (%(default)s)")
    parser.add_argument("--directory", type=Path, default=HERE / ".agent-kernel", help="where the notebook goes")
    parser.add_argument("--built", action="store_true", help="serve what `npm run build` has made")
    parser.add_argument("jupyter", nargs="*", help="after --: options of jupyter server")
    return parser.parse_args()


def _install() -> None:
    """What the page is made of, unless it is there."""
    lock, installed = HERE / "package-lock.json", HERE / "node_modules" / ".package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
        return
    if shutil.which("npm") is None:
        sys.exit("npm is missing: install Node 20.19 or newer.")
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=HERE, check=True)
    os.utime(installed)


def _write_notebook(directory: Path) -> None:
    """A notebook with the data that the demo speaks of, unless there is one."""
    shutil.copytree(DATA, directory / "data", dirs_exist_ok=True)
    if (directory / NOTEBOOK).exists():
        return
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": name, "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        for name, source in (("load", "%load_ext agent_kernel"), ("data", LOAD), ("ask", ASK))
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (directory / NOTEBOOK).write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")


def start_server(started: ExitStack, directory: Path, page: str, token: str, options: list[str]) -> str:
    """A Jupyter server that answers this page and no other. Returns its address."""
    port = _free_port()
    command = [
        *(sys.executable, "-m", "jupyter_server", "--no-browser", "--ip=127.0.0.1"),
        *(
            f"--port={port}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.root_dir={directory}",
            "--ServerApp.log_level=WARN",
        ),
        f"--ServerApp.allow_origin={page}",  # pages of other origins don't get to read what it answers
        *(["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
        *options,
    ]
    server = f"http://127.0.0.1:{port}"
    process = _start(started, command, {"JUPYTER_TOKEN": token})  # others can read a command line
    _wait_for(f"{server}/api/status", token, process, "The Jupyter server")
    return server


def open_notebook(server: str, token: str) -> str:
    """Open the notebook, as a page of Jupyter does. Returns its kernel's id."""
    session = {"path": NOTEBOOK, "name": NOTEBOOK, "type": "notebook", "kernel": {"name": "python3"}}
    kernel_id: str = request(f"{server}/api/sessions", token, session)["kernel"]["id"]
    return kernel_id


def load_data(kernel_id: str) -> None:
    """Run the notebook's second cell."""
    from jupyter_client.blocking.client import BlockingKernelClient
    from jupyter_core.paths import jupyter_runtime_dir

    client = BlockingKernelClient(connection_file=str(Path(jupyter_runtime_dir()) / f"kernel-{kernel_id}.json"))
    client.load_connection_file()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=SECONDS)
        reply = client.execute_interactive(LOAD, timeout=SECONDS)
    finally:
        client.stop_channels()
    if reply["content"]["status"] != "ok":
        sys.exit(f"The notebook's data could not be loaded: {reply['content']['evalue']}")


def start_page(started: ExitStack, port: int, *, built: bool) -> None:
    vite = ["node", str(HERE / "node_modules" / "vite" / "bin" / "vite.js"), *(["preview"] if built else [])]
    command = [*vite, "--host=127.0.0.1", f"--port={port}", "--strictPort", "--logLevel=warn"]
    _wait_for(f"http://127.0.0.1:{port}/", None, _start(started, command, {}), "The page's server")


def _start(started: ExitStack, command: list[str], variables: dict[str, str]) -> "subprocess.Popen[bytes]":
    """Start a program that ends with this one. Ctrl+C reaches this one only: Jupyter would ask whether it is meant."""
    process = subprocess.Popen(command, cwd=HERE, env={**os.environ, **variables}, start_new_session=True)
    started.callback(process.wait)
    started.callback(process.terminate)
    return process


def _wait_for(url: str, token: str | None, process: "subprocess.Popen[bytes]", name: str) -> None:
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            request(url, token)
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
        else:
            return
    _fail(f"{name} does not start. What it said stands above.")


def request(url: str, token: str | None, body: object = None) -> Any:
    """JSON of a server; of a page, its text."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"token {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as response:
        text = response.read()
        return json.loads(text) if "json" in response.headers["Content-Type"] else text


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _fail(message: str) -> NoReturn:
    sys.exit(message)


if __name__ == "__main__":
    sys.exit(main())
