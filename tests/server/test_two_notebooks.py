"""Two notebooks on one kernel: the one that asks is told to the model, and named in lists."""

import nbformat
import pytest
import pytest_asyncio

from agent_kernel.testing import FakeOpenAI, say
from tests.server.client import Kernel, open_notebook
from tests.server.serving import Server

pytestmark = pytest.mark.kernel

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
