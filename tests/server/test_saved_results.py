"""What a saved notebook has of a run's results: each once, after the run's record, whatever the page has shown."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.views import ErrorView, MessageView, OutputView
from agent_kernel.protocol.vocabulary import OPEN_RUN_MARK, RESULT_MARK, RUN_VIEW
from agent_kernel.record import place_record, render_record
from agent_kernel.runtime.settings import RunSpec
from agent_kernel_server.notebooks.records import WIDGET_MIME, RecordKeeper
from tests.core.record.record_examples import PNG, a_call, a_run, says
from tests.server.serving import Server

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
