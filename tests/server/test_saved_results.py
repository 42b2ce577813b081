"""What a saved notebook has of a run: its results once, after its record, whatever the page has shown; while the run
goes on, how it stands."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import nbformat
import pytest
import pytest_asyncio
from nbformat.sign import NotebookNotary

from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.views import ErrorView, MessageView, OutputView
from agent_kernel.protocol.vocabulary import OPEN_RUN_MARK, RESULT_MARK, RUN_VIEW
from agent_kernel.record import place_record, render_record
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel_server.notebooks.records import WIDGET_MIME, RecordKeeper
from tests.core.record.record_examples import PNG, a_call, a_run, says
from tests.server.cells import OpenPages
from tests.server.client import Api, Kernel, open_notebook
from tests.server.serving import Server
from tests.waiting import until

PATH = "analysis.ipynb"
FAILED = ErrorView(code="LLM_ERROR", message="The model failed.")
TABLE = {"text/html": "<table><tr><td>1</td></tr></table>", "text/plain": "1"}
CHART = {"application/vnd.plotly.v1+json": {"data": []}, "text/html": "<script>draw()</script>"}
Save = Callable[..., Awaitable[list[list[dict[str, Any]]]]]


def a_result(*shown: dict[str, Any], run_id: str = "run_1", answer: str = "There it is.", **changes: Any) -> RunResult:
    calls = [
        a_call(number, outputs=[OutputView(kind="display", data=data)], run_id=run_id)
        for number, data in enumerate(shown)
    ]
    messages: list[MessageView] = [says("", *calls), says(answer)]
    return RunResult(run=a_run(run_id=run_id, **changes), text=answer, messages=messages, tool_calls=calls)


def shows(data: Any, metadata: Any = None) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": metadata or {}}


def widget(model_id: str = "w1") -> dict[str, Any]:
    return shows({WIDGET_MIME: {"model_id": model_id, "version_major": 2}, "text/plain": "going on"})


def record(result: RunResult, *, alone: bool = False) -> dict[str, Any]:
    told = (result.run, result.messages, result.tool_calls)
    return shows(render_record(*told) if alone else place_record(*told).record)


def results(result: RunResult) -> list[dict[str, Any]]:
    return [one.output for one in place_record(result.run, result.messages, result.tool_calls).results]


async def keep(records: RecordKeeper, widget_model_id: str, result: RunResult) -> None:
    """The run of this widget has ended."""
    spec = RunSpec(run_id=result.run.run_id, prompt=result.run.prompt, widget_model_id=widget_model_id)
    await records.keep(spec, result, PATH)


@pytest.fixture
def records(server: Server) -> RecordKeeper:
    return server.service.records


@pytest.fixture
def save(server: Server) -> Save:
    """Save a notebook with these outputs of its cells as a page does; those that are in the file."""

    async def save_it(*cells: list[dict[str, Any]], path: str = PATH) -> list[list[dict[str, Any]]]:
        code = {"cell_type": "code", "source": "%%agent", "metadata": {"trusted": True}, "execution_count": 1}
        written = [code | {"id": f"cell{number}", "outputs": outputs} for number, outputs in enumerate(cells)]
        content = {"cells": written, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        body = json.dumps({"type": "notebook", "format": "json", "content": content})
        answer = await server.fetch("api", "contents", path, method="PUT", body=body)
        assert "message" not in json.loads(answer.body), "the notebook is valid"
        saved = nbformat.read(server.root / path, as_version=4)
        return [json.loads(json.dumps(cell.outputs)) for cell in saved.cells]

    return save_it


async def test_results_stand_after_the_record_that_takes_the_widgets_place(records: RecordKeeper, save: Save) -> None:
    result = a_result(CHART, TABLE)
    await keep(records, "w1", result)
    stream = {"output_type": "stream", "name": "stdout", "text": "hello"}
    [saved] = await save([widget(), stream])
    assert saved == [record(result), *results(result), stream]
    assert [output["data"] for output in saved[1:3]] == [CHART, TABLE]
    marks = [output["metadata"][RESULT_MARK] for output in saved[1:3]]
    assert marks == [{"run": "run_1", "call": number} for number in (1, 2)]


async def test_results_stand_once_where_a_run_is_shown_twice_or_again(records: RecordKeeper, save: Save) -> None:
    result = a_result(CHART, {"image/png": PNG})
    await keep(records, "w1", result)
    whole, short = [record(result), *results(result)], [record(result, alone=True)]
    assert PNG in short[0]["data"]["text/html"]
    for shown, saved in (
        ([whole], [whole]),
        ([[widget()], [widget()]], [whole, short]),
        ([[widget()], whole], [short, whole]),
        ([short, [widget()]], [short, whole]),
    ):
        assert await save(*shown) == saved


async def test_a_run_that_can_be_tried_again_keeps_its_cards_and_has_its_last_results(
    records: RecordKeeper, save: Save
) -> None:
    first, last = a_result(CHART, status="error", answer="It failed.", error=FAILED), a_result(CHART, TABLE)
    await keep(records, "w1", first)
    [saved] = await save([widget()])
    assert [(one["data"][RUN_VIEW], one["metadata"]) for one in saved] == [
        ({"run_id": "run_1"}, {OPEN_RUN_MARK: "run_1"})
    ]
    assert "It failed." in saved[0]["data"]["text/plain"]
    await keep(records, "w1", last)
    assert await save(saved) == [[record(last), *results(last)]]
    assert await save([widget()]) == [[record(last), *results(last)]]


async def test_a_notebook_that_was_trusted_is_trusted_with_the_results(
    records: RecordKeeper, save: Save, server: Server
) -> None:
    """Jupyter signs what the hook has made of it: the page is not asked to trust its own notebook again."""
    await keep(records, "w1", a_result(CHART))
    await save([widget()])
    notary: NotebookNotary = server.app.contents_manager.notary
    assert notary.check_signature(nbformat.read(server.root / PATH, as_version=4))


OPEN = "folder/analysis.ipynb"
ASK = "%%agent\nWhich *penguins* are heavy?"
CODE = "print(1 < 2)"


class Page:
    """An open notebook, as its page runs and saves it. The page is connected, so the server leaves the file to it."""

    def __init__(self, server: Server, kernel: Kernel) -> None:
        self._server = server
        self._kernel = kernel
        self._content: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(ASK, id="cell-1")])
        self.file = server.root / OPEN

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
                await self._server.fetch("api", "contents", OPEN, method="PUT", body=body)
                if says_that_it_waits(nbformat.read(self.file, as_version=4).cells[0].outputs[0]):
                    return

    def connect(self) -> None:
        self._server.app.kernel_manager.notify_connect(self._kernel.kernel_id)

    def disconnect(self) -> None:
        self._server.app.kernel_manager.notify_disconnect(self._kernel.kernel_id)


@pytest_asyncio.fixture(loop_scope="module")
async def page(server: Server, loaded: Kernel) -> AsyncIterator[Page]:
    await open_notebook(server.fetch, OPEN, loaded.kernel_id)
    one = Page(server, loaded)
    one.connect()
    yield one
    one.disconnect()


def says_that_it_waits(output: Any) -> bool:
    texts = [output["data"][kind] for kind in ("text/html", "text/markdown", "text/plain")]
    return WIDGET_MIME not in output["data"] and all("Waiting for you: Run Python (run_python)" in one for one in texts)


@pytest.mark.kernel
async def test_the_document_of_an_open_page_says_what_waits_and_gets_the_record_whoever_saves_it(
    api: Api, page: Page, model: FakeOpenAI, open_page: OpenPages
) -> None:
    model.add(call("run_python", code=CODE), say("Chinstrap is light."))
    sharing, asked = [await open_page(OPEN, shared=True) for _ in range(2)]
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
    for path, shows in (("another.ipynb", run_id), (OPEN, run_id)):
        await sharing.opens(path, shows=[shows])
    assert (await sharing.asked())["path"] == OPEN


@pytest.mark.kernel
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
    assert "Chinstrap is light." in (await server.fetch("api", "contents", OPEN)).body.decode()
    assert OPEN_RUN_MARK not in page.file.read_text()
    page.connect()


@pytest.mark.kernel
async def test_a_page_that_was_lost_over_the_end_gets_the_record_and_its_file_is_left_to_it(
    api: Api, page: Page, model: FakeOpenAI, open_page: OpenPages
) -> None:
    model.add(call("run_python", code=CODE), say("Chinstrap is light."))
    sleeping = await open_page(OPEN)
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
    back = await open_page(OPEN, shows=[run_id])
    while "data-agent-record" not in str((put := await back.asked())["ask"]):
        await back.answers(put, success=True)
    await back.answers(put, success=True)
    assert "Chinstrap is light." in put["ask"]["outputs"][0]["data"]["text/plain"]
    assert page.file.read_bytes() == before, "JupyterLab would ask which one to keep"
    page.connect()
