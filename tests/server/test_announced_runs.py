"""Runs that a cell announces: the server hears them with no page open, in their order, and hears no others."""

import asyncio
import textwrap
from typing import Any

import nbformat
import pytest
import pytest_asyncio

from agent_kernel.testing import FakeOpenAI, say
from agent_kernel_server.kernels.served_kernel import ServedKernel
from agent_kernel_server.notebooks.notebook_paths import NotebookPaths
from tests.server.cells import ASK
from tests.server.client import Api, Kernel, open_notebook
from tests.server.serving import Server
from tests.waiting import until

pytestmark = pytest.mark.kernel


async def test_runs_go_in_the_order_of_their_cells_though_the_notebook_of_the_first_is_found_late(
    api: Api, open_kernel: Kernel, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    declaration_of, find = ServedKernel._declaration_of, NotebookPaths.notebook_of
    declared: list[None] = []
    asked: list[None] = []

    async def declaration_is_noted(self: ServedKernel, *args: Any) -> Any:
        declaration = await declaration_of(self, *args)
        declared.append(None)
        return declaration

    async def find_late(self: NotebookPaths, *args: Any) -> Any:
        asked.append(None)
        if len(asked) == 1:
            await until(lambda: len(declared) == 2)
            await asyncio.sleep(0.2)  # long enough for the second one to start, where nothing keeps it from that
        return await find(self, *args)

    monkeypatch.setattr(ServedKernel, "_declaration_of", declaration_is_noted)
    monkeypatch.setattr(NotebookPaths, "notebook_of", find_late)
    model.add(say("One."), say("Two."))
    await open_kernel.run(
        "import agent_kernel as ak\nagent = ak.Agent()\nruns = [agent.start('First.'), agent.start('Second.')]"
    )
    runs = await api.listed("runs", 2)
    view = await api.ended(runs[0]["conversation_id"])
    assert [message["content"] for message in view["messages"] if message["role"] == "user"] == ["First.", "Second."]


async def test_a_forged_or_malformed_announcement_is_dropped(api: Api, open_kernel: Kernel, model: FakeOpenAI) -> None:
    forge = """
    def send(session, content, kernel=get_ipython().kernel):
        session.send(kernel.iopub_socket, "agent_kernel_event", content, ident=b"agent_kernel")
    own = get_ipython().kernel.session
    forged = own.clone()
    forged.key = b"not the key"
    send(forged, {"event": "announce", "run_id": "run_forged", "conversation_id": "conv_forged"})
    send(own, {"event": "announce"})
    send(own, {"event": "teleport"})
    send(own, {"event": "announce", "run_id": "run_nobody_made", "conversation_id": "conv_nobody"})
    """
    with pytest.raises(ValueError, match="Invalid Signature"):  # as any client of the kernel, this one refuses it
        await open_kernel.text(textwrap.dedent(forge))
    model.add(say("Done."))
    await open_kernel.run(ASK)  # what came before it on the same socket has been handled when this run has ended
    [run] = await api.listed("runs")
    await api.ended(run["conversation_id"])
    assert [view["conversation_id"] for view in await api.get("conversations")] == [run["conversation_id"]]


FIRST, SECOND = "page-of-the-first", "page-of-the-second"


@pytest_asyncio.fixture(loop_scope="module")
async def shared(server: Server, loaded: Kernel) -> Kernel:
    """The kernel of two notebooks, each with a saved cell that was run."""
    for name, page in (("first", FIRST), ("second", SECOND)):
        cell = nbformat.v4.new_code_cell("1", id=f"saved-in-{name}")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), server.root / f"{name}.ipynb")
        await open_notebook(server.fetch, f"{name}.ipynb", loaded.kernel_id)
        await loaded.run("1", cell_id=cell.id, page=page)
    return loaded


async def test_a_prompt_tells_of_the_notebook_of_its_cell_though_it_was_never_saved(
    shared: Kernel, model: FakeOpenAI
) -> None:
    for cell_id, page, told in (
        ("new-in-second", SECOND, "second.ipynb"),
        ("saved-in-second", "a page that was reloaded", "second.ipynb"),
        ("new", "a page of which nothing is known", "first.ipynb"),
    ):
        model.add(say("Good."))
        await shared.run("%agent --wait Go.", cell_id=cell_id, page=page)
        prompts = [one["content"] for one in model.requests[-1].body["messages"] if one["role"] == "user"]
        assert f"You work in the notebook {told}," in prompts[-1], cell_id
