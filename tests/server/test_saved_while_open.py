"""A notebook that is saved while its run goes on says how the run stands, and has the record after its end."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio

from agent_kernel.protocol.vocabulary import OPEN_RUN_MARK, RUN_VIEW
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel_server.notebooks.records import WIDGET_MIME
from tests.server.cells import OpenPage, OpenPages
from tests.server.client import Api, Fetch, Kernel, open_notebook
from tests.server.serving import Server
from tests.waiting import until

pytestmark = pytest.mark.kernel

PATH = "folder/analysis.ipynb"
ASK = "%%agent\nWhich *penguins* are heavy?"
CODE = "heavy = 1 < 2  # <b>&</b>\nprint(heavy)"


class Page:
    """What a page does with a notebook: it loads and saves it, and shows what its kernel displays."""

    def __init__(self, fetch: Fetch, kernel: Kernel) -> None:
        self.fetch = fetch
        self.kernel = kernel
        self.content: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(ASK, id="cell-1")])

    async def run(self, source: str = ASK) -> None:
        """Run the agent's cell."""
        shown = [one for one in await self.kernel.run(source) if one["msg_type"] == "display_data"]
        assert shown
        self.content["cells"][0]["outputs"] = [
            nbformat.v4.new_output("display_data", data=one["content"]["data"], metadata=one["content"]["metadata"])
            for one in shown
        ]

    async def save(self, path: str = PATH) -> Any:
        body = json.dumps({"type": "notebook", "format": "json", "content": self.content})
        answer = await self.fetch("api", "contents", *path.split("/"), method="PUT", body=body)
        return json.loads(answer.body)

    async def load(self, path: str = PATH) -> Any:
        """What a page gets, which is the page's from now on."""
        answer = await self.fetch("api", "contents", *path.split("/"), params={"content": "1", "hash": "1"})
        self.content = json.loads(answer.body)["content"]
        return self.content

    async def save_until(self, folder: Path, holds: Callable[[Any], bool], name: str = "analysis.ipynb") -> None:
        """Save again and again until the file's output is as wanted: the server renders a run's state soon after it
        has changed."""
        async with asyncio.timeout(60):
            await self.save(f"folder/{name}")
            while not holds(saved(folder, name)):
                await self.save(f"folder/{name}")

    async def post(self, *path: str, **body: Any) -> Any:
        answer = await self.fetch("api", *path, method="POST", body=json.dumps(body))
        return json.loads(answer.body) if answer.body else None


@pytest.fixture
def folder(server: Server) -> Path:
    return server.root / "folder"


@pytest_asyncio.fixture(loop_scope="module")
async def page(server: Server, loaded: Kernel, folder: Path) -> AsyncIterator[Page]:
    """An open notebook. Its page is connected, so the server leaves the file to it."""
    await open_notebook(server.fetch, PATH, loaded.kernel_id)
    manager = server.app.kernel_manager
    manager.notify_connect(loaded.kernel_id)
    yield Page(server.fetch, loaded)
    manager.notify_disconnect(loaded.kernel_id)


def saved(folder: Path, name: str = "analysis.ipynb") -> Any:
    """The first output in the file."""
    return nbformat.read(folder / name, as_version=4).cells[0].outputs[0]


def says_that_it_waits(output: Any) -> bool:
    texts = [output["data"][kind] for kind in ("text/html", "text/markdown", "text/plain")]
    return WIDGET_MIME not in output["data"] and all("Waiting for you: Run Python (run_python)" in one for one in texts)


async def test_the_document_of_an_open_page_says_what_waits_and_gets_the_record_whoever_saves_it(
    api: Api, page: Page, model: FakeOpenAI, open_page: OpenPages
) -> None:
    model.add(call("run_python", code=CODE), say("Chinstrap is light."))
    sharing, asked = [await open_page(PATH, shared=True) for _ in range(2)]
    await page.run()
    put = await asked.asked()
    [output] = put["ask"]["outputs"]
    assert (put["ask"]["type"], says_that_it_waits(output)) == ("put", True)
    run_id = put["ask"]["run_id"]
    assert output["data"][RUN_VIEW] == {"run_id": run_id}
    await asked.answers(put, success=True)
    await api.decide()
    while RUN_VIEW in put["ask"]["outputs"][0]["data"]:
        put = await asked.asked()
        await asked.answers(put, success=RUN_VIEW in put["ask"]["outputs"][0]["data"])
    assert "Chinstrap is light." in put["ask"]["outputs"][0]["data"]["text/plain"]
    again = await asked.asked()  # it has not had the cell's output yet
    assert again["ask"] == put["ask"]
    await asked.answers(again, success=True)
    # What follows comes straight after: nothing was asked of the page whose document is the same.
    await asked.leave()
    for path, shows in (("another.ipynb", run_id), (PATH, run_id)):
        await sharing.opens(path, shows=[shows])
    assert (await sharing.asked())["path"] == PATH


async def test_a_page_that_was_closed_over_the_end_finds_the_record(
    api: Api, page: Page, folder: Path, model: FakeOpenAI, server: Server
) -> None:
    model.add(call("run_python", code=CODE), say("Chinstrap is light."))
    await page.run()
    waiting = await api.next_approval()
    await page.save_until(folder, says_that_it_waits)
    server.app.kernel_manager.notify_disconnect(page.kernel.kernel_id)
    await api.decide(waiting)
    file = folder / "analysis.ipynb"
    # Jupyter writes a file in place: a page that reads it in the middle of that gets an error.
    await until(lambda: "Chinstrap is light." in (text := file.read_text()) and text.endswith("}\n"))
    assert "Chinstrap is light." in json.dumps(await page.load())
    assert OPEN_RUN_MARK not in file.read_text()
    server.app.kernel_manager.notify_connect(page.kernel.kernel_id)


async def record_of(showing: OpenPage) -> Any:
    """What the page is asked to put into its document, which it does."""
    while "data-agent-record" not in str((put := await showing.asked())["ask"]):
        await showing.answers(put, success=True)
    await showing.answers(put, success=True)
    return put["ask"]["outputs"][0]["data"]["text/plain"]


async def until_placed(run_id: str) -> None:
    """Wait until the server has written a run's record into its file, or has left that to a page."""
    await until(lambda: not any(task.get_name().endswith(run_id) for task in asyncio.all_tasks()))


async def test_a_page_that_was_lost_over_the_end_gets_the_record_and_its_file_is_left_to_it(
    api: Api, page: Page, folder: Path, model: FakeOpenAI, server: Server, open_page: OpenPages
) -> None:
    model.add(call("run_python", code=CODE), say("Chinstrap is light."))
    sleeping = await open_page(PATH)
    await page.run()
    waiting = await api.next_approval()
    await page.save_until(folder, says_that_it_waits)
    before = (folder / "analysis.ipynb").read_bytes()
    server.app.kernel_manager.notify_disconnect(page.kernel.kernel_id)
    await sleeping.leave()  # without a word, as where a computer sleeps
    await api.decide(waiting)
    await api.ended(waiting["conversation_id"])
    await until_placed(waiting["run_id"])
    back = await open_page(PATH, shows=[waiting["run_id"]])
    assert "Chinstrap is light." in await record_of(back)
    assert (folder / "analysis.ipynb").read_bytes() == before, "JupyterLab would ask which one to keep"
    server.app.kernel_manager.notify_connect(page.kernel.kernel_id)
