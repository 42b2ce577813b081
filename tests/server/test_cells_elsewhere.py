"""Cells of a notebook whose kernel has another language."""

import asyncio
import sys
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager

from tests.server.client import Api
from tests.server.mcp_client import connected, text_of
from tests.server.serving import Server

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.kernel]

ECHO = """
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel
class Echo(Kernel):
    implementation = implementation_version = banner = "echo"
    language_info = {"name": "R", "mimetype": "text/x-r", "file_extension": ".r"}
    def do_execute(self, code, silent, *_, **__):
        if not silent:
            self.send_response(self.iopub_socket, "stream", {"name": "stdout", "text": code.upper()})
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}
IPKernelApp.launch_instance(kernel_class=Echo)
"""


class WithEcho(KernelSpecManager):
    """Knows a kernel that answers in capital letters."""

    def get_kernel_spec(self, kernel_name: str) -> Any:
        if kernel_name != "echo":
            return super().get_kernel_spec(kernel_name)
        argv = [sys.executable, "-c", ECHO, "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Echo", language="R")

    def get_all_specs(self) -> Any:
        return {**super().get_all_specs(), "echo": {"resource_dir": "", "spec": self.get_kernel_spec("echo").to_dict()}}


@pytest.mark.parametrize("server_traits", [{"kernel_spec_manager_class": WithEcho}])
async def test_a_cell_of_another_language_is_shown_in_it_changed_and_run(server: Server, api: Api) -> None:
    path = server.root / "sales.ipynb"
    written = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("y <- 1", id="one")])
    written.metadata = {"kernelspec": {"name": "echo", "display_name": "Echo"}, "language_info": {"name": "R"}}
    nbformat.write(written, path)
    change = {"notebook_path": path.name, "cell_id": "one", "source": "y <- 2", "run": True}
    async with connected(server) as client:
        assert "y <- 1" in text_of(await client.call_tool("read_notebook", {"notebook_path": path.name}))
        asked = asyncio.create_task(client.call_tool("edit_cell", change))
        card = await api.next_approval()
        assert (card["preview"]["kind"], card["preview"]["language"]) == ("diff", "R")
        await api.decide(card)
        done = text_of(await asked)
    assert "Ran cell:one as [1]:\n--- output: Y <- 2" in done
    [cell] = nbformat.read(path, as_version=4).cells
    assert (cell.source, cell.outputs[0].text) == ("y <- 2", "Y <- 2")
