"""A notebook that is saved while its run goes on says how the run stands, and has the record after its end."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import nbformat
import pytest
import pytest_asyncio

from agent_kernel.protocol.vocabulary import OPEN_RUN_MARK, RUN_VIEW
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel_server.notebooks.records import WIDGET_MIME
from tests.server.cells import OpenPages
from tests.server.client import Api, Kernel, open_notebook
from tests.server.serving import Server
from tests.waiting import until

pytestmark = pytest.mark.kernel

PATH = "folder/analysis.ipynb"
ASK = "%%agent\nWhich *penguins* are heavy?"
CODE = "print(1 < 2)"


class Page:
    """An open notebook, as its page runs and saves it. The page is connected, so the server leaves the file to it."""

    def __init__(self, server: Server, kernel: Kernel) -> None:
        self._server = server
        self._kernel = kernel
        self._content: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(ASK, id="cell-1")])
        self.file = server.root / PATH

    async def run(self) -> None:
        """Run the agent's cell."""
        shown = [one for one in await self._kernel.run(ASK) if one["msg_type"] == "display_data"]
        assert shown
        self._content["cells"][0]["outputs"] = [
            nbformat.v4.new_output("display_data", data=one["content"]["data"], metadata=one["content"]["metadata"])
            for one in shown
        ]

    async def save_until_it_waits(self) -> None:
        """Save again and again: the server renders a run's state soon after it has changed."""
        body = json.dumps({"type": "notebook", "format": "json", "content": self._content})
        async with asyncio.timeout(60):
            while True:
                await self._server.fetch("api", "contents", PATH, method="PUT", body=body)
                if says_that_it_waits(nbformat.read(self.file, as_version=4).cells[0].outputs[0]):
                    return

    def connect(self) -> None:
        self._server.app.kernel_manager.notify_connect(self._kernel.kernel_id)

    def disconnect(self) -> None:
        self._server.app.kernel_manager.notify_disconnect(self._kernel.kernel_id)


@pytest_asyncio.fixture(loop_scope="module")
async def page(server: Server, loaded: Kernel) -> AsyncIterator[Page]:
    await open_notebook(server.fetch, PATH, loaded.kernel_id)
    one = Page(server, loaded)
    one.connect()
    yield one
    one.disconnect()


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
    api: Api, page: Page, model: FakeOpenAI, server: Server
) -> None:
    model.add(call("run_python", code=CODE), say("Chinstrap is light."))
    await page.run()
    waiting = await api.next_approval()
    await page.save_until_it_waits()
    page.disconnect()
    await api.decide(waiting)
    # Jupyter writes a file in place: a page that reads it in the middle of that gets an error.
    await until(lambda: "Chinstrap is light." in (text := page.file.read_text()) and text.endswith("}\n"))
    assert "Chinstrap is light." in (await server.fetch("api", "contents", PATH)).body.decode()
    assert OPEN_RUN_MARK not in page.file.read_text()
    page.connect()


async def test_a_page_that_was_lost_over_the_end_gets_the_record_and_its_file_is_left_to_it(
    api: Api, page: Page, model: FakeOpenAI, open_page: OpenPages
) -> None:
    model.add(call("run_python", code=CODE), say("Chinstrap is light."))
    sleeping = await open_page(PATH)
    await page.run()
    waiting = await api.next_approval()
    await page.save_until_it_waits()
    before = page.file.read_bytes()
    page.disconnect()
    await sleeping.leave()  # without a word, as where a computer sleeps
    await api.decide(waiting)
    await api.ended(waiting["conversation_id"])
    run_id = waiting["run_id"]  # by now its record is in the file, or has been left to a page
    await until(lambda: not any(task.get_name().endswith(run_id) for task in asyncio.all_tasks()))
    back = await open_page(PATH, shows=[run_id])
    while "data-agent-record" not in str((put := await back.asked())["ask"]):
        await back.answers(put, success=True)
    await back.answers(put, success=True)
    assert "Chinstrap is light." in put["ask"]["outputs"][0]["data"]["text/plain"]
    assert page.file.read_bytes() == before, "JupyterLab would ask which one to keep"
    page.connect()
