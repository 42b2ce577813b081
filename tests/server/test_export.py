"""`agent-kernel export` of a run that a server has carried out, while the server has its log open."""

import asyncio
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from agent_kernel import cli
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel_server.app import LOG_NAME, AgentKernelServer
from tests.server.client import Api, Kernel

pytestmark = pytest.mark.kernel


async def test_the_exported_notebook_repeats_a_run_of_the_server_without_an_agent(
    extension: AgentKernelServer, api: Api, kernel: Kernel, model: FakeOpenAI, tmp_path: Path
) -> None:
    model.add(
        call("run_python", code="total = sum(range(10))"),
        call("run_python", code="total / 0"),
        call("run_python", code="print(f'The sum is {total}')"),
        say("It is **45**."),
    )
    await kernel.run("%load_ext agent_kernel")
    await kernel.run("%%agent --policy allow --wait\nAdd the numbers below 10.")
    run_id = (await kernel.text("import agent_kernel as ak; print(ak.last_run().run_id)")).strip()
    log = Path(extension.data_dir) / LOG_NAME
    target = tmp_path / "sum.ipynb"
    arguments = ["export", run_id[:12], "--notebook", str(target), "--log", str(log)]
    assert await asyncio.to_thread(cli.main, arguments) == 0
    notebook = nbformat.read(target, as_version=4)
    client = NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    await client.async_execute()
    assert [cell.source for cell in notebook.cells][1:] == [
        "total = sum(range(10))",
        "# Left out: failed.\n# total / 0",
        "print(f'The sum is {total}')",
        "It is **45**.",
    ]
    assert notebook.cells[3].outputs[0].text == "The sum is 45\n"
    assert (await api("GET", "runs"))[0] == 200  # the server goes on with its log
