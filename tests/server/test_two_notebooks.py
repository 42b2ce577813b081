"""Two notebooks on one kernel: the model is told of the one that asks."""

import nbformat
import pytest
import pytest_asyncio

from agent_kernel.testing import FakeOpenAI, say
from tests.server.client import Api, Kernel, open_notebook
from tests.server.serving import Server

pytestmark = pytest.mark.kernel

FIRST, SECOND = "page-of-the-first", "page-of-the-second"


@pytest_asyncio.fixture(loop_scope="module")
async def shared(kernel: Kernel, server: Server) -> Kernel:
    """The kernel of two notebooks, each with a saved cell that was run."""
    for name in ("first", "second"):
        cell = nbformat.v4.new_code_cell("1", id=f"saved-in-{name}")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), server.root / f"{name}.ipynb")
        await open_notebook(server.fetch, f"{name}.ipynb", kernel.kernel_id)
    await kernel.run("%load_ext agent_kernel", cell_id="saved-in-first", page=FIRST)
    await kernel.run("2", cell_id="saved-in-second", page=SECOND)
    return kernel


def told(model: FakeOpenAI) -> list[str]:
    """The notebook that each prompt was told of, in the order of the requests."""
    asked = [
        [message["content"] for message in request.body["messages"] if message["role"] == "user"][-1]
        for request in model.requests
    ]
    return [text.partition("You work in the notebook ")[2].partition(",")[0] for text in asked]


async def test_a_prompt_tells_of_the_notebook_of_its_cell_though_it_was_never_saved(
    shared: Kernel, model: FakeOpenAI, api: Api
) -> None:
    model.add(say("One."), say("Two."), say("Three."), say("Four."))
    await shared.run("%agent --wait a", cell_id="new-in-second", page=SECOND)
    await shared.run("%agent --wait b", cell_id="new-in-first", page=FIRST)
    await shared.run("%agent --wait c", cell_id="saved-in-second", page="a page that was reloaded")
    await shared.run("%agent --wait d", cell_id="newer-in-second", page="a page that was reloaded")
    assert told(model) == ["second.ipynb", "first.ipynb", "second.ipynb", "second.ipynb"]


async def test_a_page_of_which_nothing_is_known_is_taken_for_the_first(shared: Kernel, model: FakeOpenAI) -> None:
    model.add(say("One."))
    await shared.run("%agent --wait a", cell_id="new", page="who knows")
    assert told(model) == ["first.ipynb"]
