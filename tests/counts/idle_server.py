"""A program: a Jupyter server whose user runs no agent. It prints the modules that it holds in the end.

Its arguments: whether the extension is on (`True` or `False`), and a folder of its own.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import nbformat
from jupyter_core.utils import ensure_async
from jupyter_server.serverapp import ServerApp
from tornado.httpclient import AsyncHTTPClient, HTTPRequest

OTHERS = ("jupyterlab", "notebook", "jupyter_lsp", "jupyter_server_terminals", "notebook_shim", "nbclassic")


async def use(app: ServerApp) -> None:
    """A kernel starts and runs a cell, and a page opens a notebook: it asks for the open runs then."""
    kernel_id = await app.kernel_manager.start_kernel()
    client = app.kernel_manager.get_kernel(kernel_id).client()
    client.start_channels()
    await ensure_async(client.wait_for_ready(timeout=60))
    client.execute("6 * 7")
    await ensure_async(client.get_shell_msg(timeout=60))
    client.stop_channels()
    for path in ("api/contents/plain.ipynb?content=1", "agent-kernel/api/runs?state=open&limit=0"):
        headers = {"Authorization": f"token {app.identity_provider.token}"}
        answer = await AsyncHTTPClient().fetch(
            HTTPRequest(app.connection_url + path, headers=headers), raise_error=False
        )
        assert answer.code in (200, 404), answer  # without the extension there is no such route
    await app.kernel_manager.shutdown_kernel(kernel_id, now=True)


def main(extension: bool, folder: Path) -> None:
    os.environ |= {name: str(folder) for name in ("HOME", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    os.environ["JUPYTER_CONFIG_DIR"] = str(folder / "config")
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("6 * 7")]), folder / "plain.ipynb")
    app = ServerApp()
    on = dict.fromkeys(OTHERS, False) | {"agent_kernel_server": extension}
    places = ["--allow-root", "--no-browser", "--ip=127.0.0.1", "--port=0", f"--ServerApp.root_dir={folder}"]
    app.initialize([*places, f"--ServerApp.jpserver_extensions={on}"])

    async def work() -> None:
        try:
            async with asyncio.timeout(90):
                await use(app)
            sys.stdout.write(json.dumps(sorted(sys.modules)) + "\n")
        finally:
            app.stop()

    app.io_loop.add_callback(work)
    app.start()


if __name__ == "__main__":
    main(sys.argv[1] == "True", Path(sys.argv[2]))
