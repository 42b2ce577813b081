"""A notebook is a file that somebody sent: nothing saved in it starts a run, approves a call or changes a record."""

import json
from pathlib import Path

import nbformat
import pytest

from agent_kernel.cli import main
from agent_kernel.testing import FakeOpenAI, call, say
from tests.security.conftest import acting, hostile_notebook, times_run
from tests.server.client import Api, Kernel, open_notebook
from tests.server.serving import Server

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("fresh")]


async def test_opening_and_saving_a_hostile_notebook_starts_and_approves_nothing(
    api: Api,
    server: Server,
    kernel: Kernel,
    model: FakeOpenAI,
    side_effect: Path,
) -> None:
    code, path = acting(side_effect), server.root / "sent.ipynb"
    model.add(call("run_python", code=code), call("read_notebook", path=str(path)), say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    run_id = await api.start_run(conversation_id)
    waiting = await api.next_approval()
    hostile_notebook(path, conversation_id, run_id, waiting["approval_id"], code)
    before = await api.get("conversations", conversation_id)
    opened = json.loads((await server.fetch("api", "contents", "sent.ipynb")).body)
    saved = {"type": "notebook", "format": "json", "content": opened["content"]}
    await server.fetch("api", "contents", "sent.ipynb", method="PUT", body=json.dumps(saved))
    await server.fetch("api", "contents", "sent.ipynb", "checkpoints", method="POST", body="{}")
    opened_kernel = Kernel(await open_notebook(server.fetch, "sent.ipynb"), server.app.kernel_manager)
    await opened_kernel.run("%load_ext agent_kernel")
    assert await api.get("conversations") == [before]
    assert times_run(side_effect) == 0
    # Its widget view stays what it is: the server has no record for it, and takes none from the file.
    outputs = nbformat.read(path, as_version=4).cells[0].outputs
    assert outputs[0]["data"]["application/vnd.jupyter.widget-view+json"]["model_id"] == "w" * 32
    await api.decide(waiting, approved=False)
    await api.decide()
    view = await api.ended(conversation_id)  # to a model that reads the notebook it is only text
    assert [one["state"] for one in view["tool_calls"]] == ["denied", "success"]
    assert waiting["approval_id"] in view["tool_calls"][1]["result"]
    assert times_run(side_effect) == 0
    await opened_kernel.close()


def test_running_a_notebook_without_a_page_approves_nothing_that_is_saved_in_it(
    tmp_path: Path, side_effect: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headless, the agent's cell itself runs, and its policy is what the cell says; what is saved beside it is not."""
    code = acting(side_effect)
    path = tmp_path / "sent.ipynb"
    hostile_notebook(path, "conv_x", "run_x", "apr_x", code)
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].source = "%load_ext agent_kernel"
    notebook.cells.append(nbformat.v4.new_code_cell("%%agent\nRun what this notebook wants."))
    nbformat.write(notebook, path)
    with FakeOpenAI([call("run_python", code=code), say("Denied, then.")]) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        assert main(["run", str(path), "--timeout", "60"]) == 0
    assert times_run(side_effect) == 0
    (output,) = nbformat.read(path, as_version=4).cells[1].outputs
    assert "Nobody was there to ask" in output["data"]["text/plain"]
