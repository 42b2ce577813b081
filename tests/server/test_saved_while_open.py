"""A notebook that is saved while its run goes on says how the run stands; a page that loads it gets the cards again."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from nbconvert.exporters import HTMLExporter, MarkdownExporter
from tornado.httpclient import HTTPClientError
from tornado.web import HTTPError

from agent_kernel.protocol.vocabulary import OPEN_RUN_MARK, RUN_VIEW
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel_server.app import AgentKernelServer
from agent_kernel_server.notebooks import open_runs
from agent_kernel_server.notebooks.outputs import WIDGET_MIME, has_prompt, notebook_in
from tests.server.cells import OpenPages
from tests.server.client import Api, Fetch, Kernel, open_notebook
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
        outputs = [nbformat.v4.new_output("display_data", **_displayed(one["content"])) for one in shown]
        self.content["cells"][0]["outputs"] = outputs

    async def save(self, path: str = PATH) -> Any:
        body = json.dumps({"type": "notebook", "format": "json", "content": self.content})
        answer = await self.fetch("api", "contents", *path.split("/"), method="PUT", body=body)
        return json.loads(answer.body)

    async def load(self, path: str = PATH, **params: str) -> Any:
        """The model that a page gets; its content is the page's from now on."""
        answer = await self.fetch("api", "contents", *path.split("/"), params={"content": "1", "hash": "1"} | params)
        model = json.loads(answer.body)
        self.content = model["content"]
        return model

    def output(self) -> Any:
        return self.content["cells"][0]["outputs"][0]

    async def post(self, *path: str, **body: Any) -> Any:
        answer = await self.fetch("api", *path, method="POST", body=json.dumps(body))
        return json.loads(answer.body) if answer.body else None


def _displayed(content: Any) -> dict[str, Any]:
    return {"data": content["data"], "metadata": content["metadata"]}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A save goes on after five seconds without what it waits for, which a slow machine may need."""
    monkeypatch.setattr(open_runs, "WAIT_SECONDS", 60)


@pytest.fixture
def folder(jp_root_dir: Path) -> Path:
    return jp_root_dir / "folder"


@pytest_asyncio.fixture(loop_scope="module")
async def page(extension: AgentKernelServer, kernel: Kernel, jp_fetch: Fetch, folder: Path) -> AsyncIterator[Page]:
    """An open notebook. Its page is connected, so the server leaves the file to it."""
    await open_notebook(jp_fetch, PATH, kernel.kernel_id)
    await kernel.run("%load_ext agent_kernel")
    manager = extension.serverapp.kernel_manager
    manager.notify_connect(kernel.kernel_id)
    yield Page(jp_fetch, kernel)
    manager.notify_disconnect(kernel.kernel_id)


def saved(folder: Path, name: str = "analysis.ipynb") -> Any:
    """The first output in the file."""
    return nbformat.read(folder / name, as_version=4).cells[0].outputs[0]


def says_that_it_waits(output: Any) -> bool:
    texts = [output["data"][kind] for kind in ("text/html", "text/markdown", "text/plain")]
    return WIDGET_MIME not in output["data"] and all("Waiting for you: Run Python (run_python)" in one for one in texts)


async def test_a_call_that_waits_is_in_the_file_with_its_code_and_the_same_each_time(
    api: Api, page: Page, folder: Path, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code=CODE))
    await page.run()
    await api.next_approval()
    await page.save()
    output = saved(folder)
    assert says_that_it_waits(output)
    data = output["data"]
    assert "heavy = 1 &lt; 2  # &lt;b&gt;&amp;&lt;/b&gt;\nprint(heavy)" in data["text/html"]
    assert "penguins" not in data["text/html"]  # the cell's source has the prompt
    assert f"```python\n{CODE}\n```" in data["text/markdown"]
    assert "    print(heavy)" in data["text/plain"]
    before = (folder / "analysis.ipynb").read_bytes()
    await page.save()
    assert (folder / "analysis.ipynb").read_bytes() == before


async def test_a_page_that_loads_it_gets_the_cards_and_saves_as_before(
    api: Api, page: Page, folder: Path, model: FakeOpenAI, jp_fetch: Fetch
) -> None:
    model.add(call("run_python", code=CODE), say("Chinstrap is light."))
    await page.run()
    widget = page.output()["data"][WIDGET_MIME]
    waiting = await api.next_approval()
    first = await page.save()
    loaded = await page.load()
    assert page.output()["data"][WIDGET_MIME] == widget
    assert (page.output()["metadata"], loaded["last_modified"]) == ({}, first["last_modified"])
    before = (folder / "analysis.ipynb").read_bytes()
    await page.save()
    assert (folder / "analysis.ipynb").read_bytes() == before
    assert (await page.load())["hash"] == loaded["hash"]

    checkpoint = await page.post("contents", *PATH.split("/"), "checkpoints")
    await api("POST", "approvals", waiting["approval_id"], body={"approved": True})
    await api.ended(waiting["conversation_id"])
    await page.save()
    assert "Chinstrap is light." in saved(folder)["data"]["text/plain"]
    await page.post("contents", *PATH.split("/"), "checkpoints", checkpoint["id"])
    assert says_that_it_waits(saved(folder))
    await page.load()  # what a page does after that
    assert "Chinstrap is light." in page.output()["data"]["text/plain"]


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
    waiting = await api.next_approval()
    await api("POST", "approvals", waiting["approval_id"], body={"approved": True})
    while RUN_VIEW in put["ask"]["outputs"][0]["data"]:
        put = await asked.asked()
        await asked.answers(put, success=True)
    assert "Chinstrap is light." in put["ask"]["outputs"][0]["data"]["text/plain"]
    # What follows comes straight after: nothing was asked of the page whose document is the same.
    await asked.leave()
    for path, shows in (("another.ipynb", run_id), (PATH, run_id)):
        await sharing.opens(path, shows=[shows])
    assert (await sharing.asked())["path"] == PATH


async def test_a_save_between_the_end_and_the_record_waits_for_the_record(
    api: Api,
    page: Page,
    folder: Path,
    model: FakeOpenAI,
    extension: AgentKernelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model.add(call("run_python", code=CODE), say("Chinstrap is light."))
    await page.run()
    waiting = await api.next_approval()
    assert extension.service is not None
    records = extension.service.records
    find, go_on = records.notebook_path, asyncio.Event()

    async def find_later(*args: Any) -> str | None:
        await go_on.wait()
        return await find(*args)

    monkeypatch.setattr(records, "notebook_path", find_later)
    await api("POST", "approvals", waiting["approval_id"], body={"approved": True})
    await api.ended(waiting["conversation_id"])
    async with asyncio.TaskGroup() as tasks:
        saving = tasks.create_task(page.save())
        await asyncio.wait([saving], timeout=0.5)
        assert not saving.done()
        go_on.set()
    assert "data-agent-record" in saved(folder)["data"]["text/html"]


async def test_copies_downloads_and_conversions_have_what_was_saved(
    api: Api, page: Page, folder: Path, model: FakeOpenAI, jp_fetch: Fetch
) -> None:
    model.add(call("run_python", code=CODE))
    await page.run()
    await api.next_approval()
    await page.save()
    assert says_that_it_waits(saved(folder))
    await page.post("contents", "folder", copy_from=PATH)
    await page.save("folder/saved-as.ipynb")
    for name in ("analysis-Copy1.ipynb", "saved-as.ipynb"):
        assert says_that_it_waits(saved(folder, name))
        copy = Page(jp_fetch, page.kernel)
        await copy.load(f"folder/{name}")
        assert says_that_it_waits(copy.output())
    download = await jp_fetch("files", *PATH.split("/"))
    assert WIDGET_MIME not in download.body.decode()
    converted = (await jp_fetch("nbconvert", "html", *PATH.split("/"))).body.decode()
    file = folder / "analysis.ipynb"
    exported = [(await asyncio.to_thread(one().from_filename, file))[0] for one in (HTMLExporter, MarkdownExporter)]
    for text in (converted, *exported):
        assert "Waiting for you: Run Python (run_python)" in text
        assert "widget-view" not in text
        assert "not found" not in text


async def test_a_page_that_was_closed_over_the_end_finds_the_record(
    api: Api, page: Page, folder: Path, model: FakeOpenAI, extension: AgentKernelServer
) -> None:
    model.add(call("run_python", code=CODE), say("Chinstrap is light."))
    await page.run()
    waiting = await api.next_approval()
    await page.save()
    extension.serverapp.kernel_manager.notify_disconnect(page.kernel.kernel_id)
    await api("POST", "approvals", waiting["approval_id"], body={"approved": True})
    file = folder / "analysis.ipynb"
    # Jupyter writes a file in place: a page that reads it in the middle of that gets an error.
    await until(lambda: "Chinstrap is light." in (text := file.read_text()) and text.endswith("}\n"))
    assert "Chinstrap is light." in json.dumps((await page.load())["content"])
    assert OPEN_RUN_MARK not in file.read_text()
    extension.serverapp.kernel_manager.notify_connect(page.kernel.kernel_id)


async def test_a_question_and_a_run_in_the_queue_say_so(api: Api, page: Page, folder: Path, model: FakeOpenAI) -> None:
    model.add(call("ask_user", question="Which <one>?", choices=["a", "b"]))
    await page.run("%%agent\nFirst.")
    async with asyncio.timeout(60):
        while not any(run["waits_for"] for run in (await api("GET", "runs"))[1]):
            pass
    await page.save()
    plain = saved(folder)["data"]["text/plain"]
    assert "Waiting for you: Ask you (ask_user)\n\nWhich <one>?\n\nTo choose from: a, b" in plain
    queued = Page(page.fetch, page.kernel)
    await queued.run("%%agent\nSecond.")
    async with asyncio.timeout(60):
        while not (await api("GET", "runs", params={"state": "queued"}))[1]:
            pass
    await queued.save()
    assert "Queued behind “First.”, which waits for you" in saved(folder)["data"]["text/plain"]
    (conversation,) = (await api("GET", "conversations"))[1]
    for run in conversation["runs"][::-1]:
        await api("POST", "conversations", conversation["conversation_id"], "runs", run["run_id"], "cancel")
    await api.ended(conversation["conversation_id"])


@pytest.fixture
def slow_start(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """What is set when the log has a run, as every client sees, and what the server waits for before it knows that."""
    start, written, go_on = Conversation.start_run, asyncio.Event(), asyncio.Event()

    async def start_slowly(self: Conversation, *args: Any, **kwargs: Any) -> RunHandle:
        handle = await start(self, *args, **kwargs)
        written.set()
        await go_on.wait()
        return handle

    monkeypatch.setattr(Conversation, "start_run", start_slowly)
    return written, go_on


async def test_a_save_while_a_run_starts_waits_until_the_run_is_open(
    api: Api, page: Page, folder: Path, model: FakeOpenAI, slow_start: tuple[asyncio.Event, asyncio.Event]
) -> None:
    written, go_on = slow_start
    model.add(call("run_python", code=CODE))
    await page.run()
    await written.wait()
    await api.next_approval()
    another = Page(page.fetch, page.kernel)
    another.content["cells"][0]["outputs"] = [_stranger("0" * 32)]
    async with asyncio.TaskGroup() as tasks:
        saving = tasks.create_task(page.save())
        await another.save("folder/another.ipynb")  # which shows none of the run
        await asyncio.wait([saving], timeout=0.5)
        assert not saving.done()
        go_on.set()
    assert says_that_it_waits(saved(folder))


async def test_a_save_waits_only_so_long_for_a_run_that_does_not_start(
    api: Api,
    page: Page,
    folder: Path,
    model: FakeOpenAI,
    slow_start: tuple[asyncio.Event, asyncio.Event],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_runs, "WAIT_SECONDS", 0.1)
    written, go_on = slow_start
    model.add(call("run_python", code=CODE))
    await page.run()
    await written.wait()
    await page.save()
    assert WIDGET_MIME in saved(folder)["data"]
    go_on.set()
    await api.next_approval()
    await page.save()
    assert says_that_it_waits(saved(folder))


def _stranger(model_id: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {WIDGET_MIME: {"model_id": model_id}}, "metadata": {}}


def _marked(run_id: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/plain": "x"}, "metadata": {OPEN_RUN_MARK: run_id}}


async def test_what_a_notebook_says_of_other_runs_is_left_alone(
    api: Api, page: Page, model: FakeOpenAI, jp_fetch: Fetch, folder: Path
) -> None:
    model.add(call("run_python", code=CODE))
    await page.run()
    run_id = (await api.next_approval())["run_id"]
    odd = [
        *(_stranger(one) for one in ("0" * 32, None, 7, [1], {"a": 1}, "x" * 100_000)),
        *(_marked(one) for one in ("run_nobody_made", None, 7, [run_id], {"run": run_id})),
    ]
    page.content["cells"][0]["outputs"] += odd
    stranger = Page(jp_fetch, page.kernel)
    stranger.content = json.loads(json.dumps(page.content))
    stranger.content["cells"][0]["outputs"] = [_marked(run_id)]
    await stranger.save("folder/another.ipynb")
    await stranger.load("folder/another.ipynb")
    assert stranger.output()["data"] == {"text/plain": "x"}  # the run is none of this notebook's
    await page.save()
    assert says_that_it_waits(saved(folder))
    await page.load()
    assert WIDGET_MIME in page.output()["data"]
    assert len(page.content["cells"][0]["outputs"]) == 1 + len(odd)
    assert page.content["cells"][0]["outputs"][1:7] == odd[:6]


ODD_NOTEBOOKS: list[Any] = [
    [],
    "x",
    {"cells": None},
    {
        "cells": [
            None,
            7,
            "x",
            [],
            {"source": 7, "outputs": 7},
            {"outputs": [None, 7, {"output_type": ["display_data"]}]},
        ]
    },
    {"cells": [{"outputs": [{"output_type": "display_data", "data": 7, "metadata": 7}]}]},
    {"cells": [{"outputs": [{"output_type": "display_data", "data": [WIDGET_MIME], "metadata": [OPEN_RUN_MARK]}]}]},
    {"cells": [{"outputs": [{"output_type": "display_data"}]}]},
]


async def test_notebooks_of_odd_cells_are_jupyters_to_judge(
    api: Api, page: Page, model: FakeOpenAI, extension: AgentKernelServer
) -> None:
    model.add(call("run_python", code=CODE))
    await page.run()
    await api.next_approval()
    assert extension.service is not None
    open_runs = extension.service.records.open_runs
    notebooks = [{"type": "notebook", "format": "json", "content": one, "path": PATH} for one in ODD_NOTEBOOKS]
    for odd in (*notebooks, None, [], 7, {"type": "file", "content": "x"}, {"type": ["notebook"], "content": {}}):
        before = json.dumps(odd)
        await open_runs.prepare(odd)
        open_runs.pre_save(odd, PATH)
        assert not has_prompt(notebook_in(odd) or {})
        assert json.dumps(odd) == before


@pytest.mark.filterwarnings("ignore:The synchronous ContentsManager")
class TestAManagerOfAnotherKind:
    @pytest.fixture(
        params=[
            "jupyter_server.services.contents.largefilemanager.LargeFileManager",
            "tests.server.test_saved_while_open.HooklessManager",
        ]
    )
    def server_traits(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        return {"contents_manager_class": request.param}

    async def test_saves_what_waits_and_loads_the_cards(
        self, api: Api, page: Page, folder: Path, model: FakeOpenAI
    ) -> None:
        model.add(call("run_python", code=CODE), say("Chinstrap is light."))
        await page.run()
        waiting = await api.next_approval()
        await page.save()
        assert says_that_it_waits(saved(folder))
        await page.load()
        assert WIDGET_MIME in page.output()["data"]
        await api("POST", "approvals", waiting["approval_id"], body={"approved": True})
        await api.ended(waiting["conversation_id"])
        await page.save()
        assert "Chinstrap is light." in saved(folder)["data"]["text/plain"]


class HooklessManager(AsyncFileContentsManager):
    """One of those that do not run hooks."""

    def run_pre_save_hooks(self, model: Any, path: str, **_: Any) -> None:
        """Nothing."""


async def test_a_file_that_can_not_be_written_is_refused_and_the_run_goes_on(
    api: Api, page: Page, folder: Path, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, extension: AgentKernelServer
) -> None:
    model.add(call("run_python", code=CODE))
    await page.run()
    await api.next_approval()
    await page.save()

    def refuse(*_: Any, **__: Any) -> None:
        raise HTTPError(403, "Permission denied")

    monkeypatch.setattr(extension.serverapp.contents_manager, "_save_notebook", refuse)
    with pytest.raises(HTTPClientError, match="403"):
        await page.save()
    await page.load()
    assert WIDGET_MIME in page.output()["data"]
    assert len(await api.pending()) == 1
