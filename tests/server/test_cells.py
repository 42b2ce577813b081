"""Cells of a notebook that the agent reads, changes and runs: in its file, and in the pages that have it open."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado.httpclient import HTTPClientError
from tornado.websocket import WebSocketClientConnection

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel_server.notebooks import editor
from tests.server.client import Api, Fetch, Kernel, open_notebook
from tests.server.serving import Server
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

READ = call("read_notebook", call_id="read")


class Notebook:
    """A notebook in the server's folder with the cells c1 and c2, whose kernel is the test's."""

    def __init__(self, api: Api, model: FakeOpenAI, kernel: Kernel, path: Path) -> None:
        self._api, self._model, self._kernel, self.path = api, model, kernel, path

    def write(self, **changed: Any) -> bytes:
        cells = [
            {
                "cell_type": "code",
                "id": "c1",
                "metadata": {},
                "source": "x = 20",
                "execution_count": None,
                "outputs": [],
            },
            {"cell_type": "markdown", "id": "c2", "metadata": {}, "source": "# Title"},
        ]
        for cell in cells:
            cell.update(changed.get(str(cell["id"]), {}))
        whole = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": changed.get("minor", 5)}
        nbformat.write(nbformat.from_dict(whole), self.path)
        return self.path.read_bytes()

    def cells(self) -> list[Any]:
        found: list[Any] = nbformat.read(self.path, as_version=4).cells
        return found

    async def ask(self, *turns: ModelTurn, reads: bool = True, decides: bool = True) -> str:
        """Have the model read the notebook and send these calls, which are approved; the conversation's id."""
        self._model.add(*([READ] if reads else []), *turns, say("Done."))
        conversation_id = await self._api.new_conversation(kernel_id=self._kernel.kernel_id)
        await self._api.start_run(conversation_id)
        for _ in turns if decides else ():
            await self.approve()
        return conversation_id

    async def approve(self) -> Any:
        waiting = await self._api.next_approval()
        await self._api("POST", "approvals", waiting["approval_id"], body={"approved": True})
        return waiting

    async def ended(self, conversation_id: str) -> list[Any]:
        calls: list[Any] = (await self._api.ended(conversation_id))["tool_calls"]
        return [one for one in calls if one["tool_name"] != "read_notebook"]


@pytest_asyncio.fixture(loop_scope="module")
async def notebook(server: Server, api: Api, model: FakeOpenAI, kernel: Kernel) -> Notebook:
    one = Notebook(api, model, kernel, server.root / "cells.ipynb")
    one.write()
    session = await open_notebook(server.fetch, "cells.ipynb", kernel.kernel_id)
    assert session == kernel.kernel_id
    return one


EDIT = call("edit_cell", cell_id="c1", source="x = 21\nx * 2")


async def test_without_a_page_an_edit_is_made_in_the_file_and_touches_that_cell_only(notebook: Notebook) -> None:
    before = notebook.path.read_text().splitlines()
    [done] = await notebook.ended(await notebook.ask(EDIT))
    assert done["state"] == "success"
    assert done["result"].startswith("Edited cell:c1 of cells.ipynb (in its file, as no page has it open).")
    after = notebook.path.read_text().splitlines()
    changed = [line for line in after if line not in before]
    assert [line.strip() for line in changed] == ['"x = 21\\n",', '"x * 2"']


async def test_without_a_page_the_model_is_told_how_old_the_file_is(notebook: Notebook, api: Api) -> None:
    conversation_id = await notebook.ask(decides=False)
    await api.ended(conversation_id)
    [read] = (await api.ended(conversation_id))["tool_calls"]
    assert "This notebook (cells.ipynb), as it was saved " in read["result"]
    assert "(no page has it open): 2 cells" in read["result"]
    assert "[ ] cell:c1 (code, number 0)\nx = 20\n\ncell:c2 (markdown, number 1)\n# Title" in read["result"]


async def test_without_a_page_a_cell_runs_in_the_kernel_and_its_outputs_are_in_the_file(
    notebook: Notebook, kernel: Kernel
) -> None:
    edit = call("edit_cell", cell_id="c1", source="x = 21\nx * 2", run=True)
    [done] = await notebook.ended(await notebook.ask(edit))
    assert done["state"] == "success"
    cell = notebook.cells()[0]
    assert f"Ran cell:c1 as [{cell.execution_count}]:\n--- output: 42" in done["result"]
    assert cell.outputs[0].data["text/plain"] == "42"
    assert await kernel.text("print(_, x)") == "42 21\n", "as a cell of the user's own"


async def test_an_error_of_a_cell_that_ran_goes_back_to_the_model(notebook: Notebook) -> None:
    notebook.write(c1={"source": "print('before')\n1 / 0"})
    [done] = await notebook.ended(await notebook.ask(call("run_cell", cell_id="c1")))
    assert done["state"] == "error"
    assert "before" in done["result"]
    assert "ZeroDivisionError: division by zero" in done["result"]
    assert notebook.cells()[0].outputs[-1].ename == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("turn", "order"),
    [
        (call("insert_cell", source="new", after="cell:c1"), ["c1", "new", "c2"]),
        (call("insert_cell", source="new", cell_type="markdown", after=None), ["new", "c1", "c2"]),
        (call("insert_cell", source="new"), ["c1", "c2", "new"]),
        (call("delete_cell", cell_id="c1"), ["c2"]),
        (call("move_cell", cell_id="c1", after="c2"), ["c2", "c1"]),
        (call("move_cell", cell_id="c2", after=None), ["c2", "c1"]),
    ],
    ids=lambda value: value.tool_calls[0].name if isinstance(value, ModelTurn) else None,
)
async def test_cells_are_added_deleted_and_moved_in_the_file(
    notebook: Notebook, turn: ModelTurn, order: list[str]
) -> None:
    [done] = await notebook.ended(await notebook.ask(turn))
    assert done["state"] == "success", done["result"]
    assert ["new" if cell.source == "new" else cell.id for cell in notebook.cells()] == order
    assert all(f"cell:{cell.id}" in done["result"] for cell in notebook.cells() if cell.source == "new")


@pytest.mark.parametrize(
    ("turn", "reads", "changed", "text"),
    [
        (EDIT, False, {}, "You have not seen the source of the cell c1: read the notebook first"),
        (call("delete_cell", cell_id="c9"), True, {}, "You have not seen the source of the cell c9"),
        (call("insert_cell", source="new", after="c9"), True, {}, "There is no cell c9"),
    ],
)
async def test_what_the_model_has_not_seen_is_refused_without_asking_anybody(
    notebook: Notebook, turn: ModelTurn, reads: bool, changed: dict[str, Any], text: str
) -> None:
    before = notebook.write(**changed)
    [done] = await notebook.ended(await notebook.ask(turn, reads=reads, decides=False))
    assert (done["state"], done["decided_at"]) == ("invalid", None)
    assert text in done["result"]
    assert notebook.path.read_bytes() == before


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"c1": {"source": "x = 30\ny = 2"}}, "was changed since you saw it. Nothing was done."),
        ({"c1": {"id": "other"}}, "There is no cell c1 in the notebook now."),
        ({"c1": {"metadata": {"editable": False}}}, "is locked"),
    ],
)
async def test_a_cell_that_changed_while_its_card_waited_is_left_alone_and_told_as_it_is_now(
    notebook: Notebook, changed: dict[str, Any], text: str
) -> None:
    conversation_id = await notebook.ask(EDIT, decides=False)
    await until_asked(notebook)
    now = notebook.write(**changed)
    waiting = await notebook.approve()
    assert waiting["preview"]["kind"] == "diff"
    [done] = await notebook.ended(conversation_id)
    assert done["state"] == "error"
    assert text in done["result"]
    assert notebook.path.read_bytes() == now
    if "source" in changed.get("c1", {}):
        assert "Its source now:\nx = 30\ny = 2" in done["result"]
        assert "-x = 20\n+x = 30\n+y = 2" in done["result"]


async def until_asked(notebook: Notebook) -> None:
    await notebook._api.next_approval()


async def test_a_cell_that_the_model_was_refused_because_it_changed_can_be_changed_next(notebook: Notebook) -> None:
    conversation_id = await notebook.ask(EDIT, EDIT, decides=False)
    await until_asked(notebook)
    notebook.write(c1={"source": "x = 30"})
    await notebook.approve()
    await notebook.approve()
    assert [one["state"] for one in await notebook.ended(conversation_id)] == ["error", "success"]
    assert notebook.cells()[0].source == "x = 21\nx * 2"


async def test_the_mode_edit_lets_edits_through_and_asks_before_anything_runs(
    notebook: Notebook, api: Api, model: FakeOpenAI
) -> None:
    conversation_id = await notebook.ask(decides=False)
    await api.ended(conversation_id)
    await api("POST", "conversations", conversation_id, "policy", body={"mode": "edit"})
    model.add(EDIT, call("run_cell", cell_id="c1"), say("Done."))
    await api.start_run(conversation_id)
    waiting = await notebook.approve()
    assert waiting["tool_name"] == "run_cell"
    edited, ran = await notebook.ended(conversation_id)
    assert (edited["by"], ran["by"], ran["state"]) == ("policy", "user", "success")


async def test_a_notebook_of_5000_cells_is_read_in_parts_and_its_last_cell_edited(notebook: Notebook) -> None:
    cell = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    cells = [cell | {"id": f"c{number}", "source": f"x = {number}"} for number in range(5_000)]
    whole = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    notebook.path.write_text(json.dumps(whole))
    read = call("read_notebook", first_cell=4_990)
    notebook._model.add(read)
    edit = call("edit_cell", cell_id="c4999", source="last = 1")
    [done] = await notebook.ended(await notebook.ask(edit, reads=False))
    assert done["state"] == "success", done["result"]
    saved = json.loads(notebook.path.read_text())["cells"]
    assert [one["source"] for one in saved[-2:]] == [["x = 4998"], ["last = 1"]]


# With pages


class OpenPage:
    """A page as the server sees it: it has the notebook open, and what it is asked is done by the test."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket = socket
        self._left = False

    async def opens(self, *paths: str) -> None:
        notebooks = [{"path": path, "kernel_id": None} for path in paths]
        await self._socket.write_message(json.dumps({"type": "notebooks", "notebooks": notebooks}))

    async def asked(self) -> Any:
        async with asyncio.timeout(30):
            frame = await self._socket.read_message()
        assert frame is not None
        return json.loads(frame)

    async def answers(self, request: Any, **answer: Any) -> None:
        await self._socket.write_message(json.dumps({"type": "answer", "request_id": request["request_id"], **answer}))

    async def shows(self, source: str, **answer: Any) -> Any:
        """Answer the next request with the cell c1 as it is here."""
        request = await self.asked()
        cell = {"cell_id": "c1", "cell_type": "code", "index": 0, "source": source}
        await self.answers(request, cells=[cell], total=1, **answer)
        return request

    async def leave(self) -> None:
        if not self._left:
            self._left = True
            self._socket.close()
            async with asyncio.timeout(30):
                while await self._socket.read_message() is not None:
                    pass


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(server: Server) -> AsyncIterator[Callable[..., Awaitable[OpenPage]]]:
    opened: list[OpenPage] = []

    async def open_it(*paths: str) -> OpenPage:
        opened.append(OpenPage(await server.open_socket("agent-kernel", "api", "pages")))
        pages = server.extension.service.pages  # type: ignore[union-attr]
        known = len(pages._pages)
        await opened[-1].opens(*paths)
        await until(lambda: len(pages._pages) == known + 1)
        return opened[-1]

    yield open_it
    for page in opened:
        await page.leave()


OpenPages = Callable[..., Awaitable[OpenPage]]


async def edited_in(page: OpenPage, notebook: Notebook) -> tuple[str, Any]:
    """Until the page has been asked to change the cell: the conversation's id, and the request."""
    conversation_id = await notebook.ask(EDIT, decides=False)
    for _ in range(2):  # read_notebook, and the card
        await page.shows("typed = 1")
    await notebook.approve()
    await page.shows("typed = 1")
    return conversation_id, await page.asked()


async def test_the_page_that_was_looked_at_last_is_read_and_changed_and_not_the_file(
    notebook: Notebook, open_page: OpenPages
) -> None:
    other = await open_page("cells.ipynb")
    page = await open_page("cells.ipynb")
    await other.opens("another.ipynb", "cells.ipynb")
    await page.opens("cells.ipynb")
    before = notebook.path.read_bytes()
    conversation_id, request = await edited_in(page, notebook)
    assert request["path"] == "cells.ipynb"
    assert (request["ask"]["expected"], request["ask"]["source"]) == ("typed = 1", "x = 21\nx * 2")
    cell = {"cell_id": "c1", "cell_type": "code", "index": 0, "source": "x = 21\nx * 2"}
    await page.answers(request, cells=[cell], total=1)
    [done] = await notebook.ended(conversation_id)
    assert done["result"].startswith("Edited cell:c1 of cells.ipynb (as the page shows it now).")
    assert notebook.path.read_bytes() == before


async def test_of_two_cells_with_one_id_none_is_changed(notebook: Notebook, open_page: OpenPages) -> None:
    page = await open_page("cells.ipynb")
    conversation_id = await notebook.ask(EDIT, decides=False)
    await page.shows("x = 20")
    request = await page.asked()
    cells = [{"cell_id": "c1", "cell_type": "code", "index": index, "source": "x = 20"} for index in range(2)]
    await page.answers(request, cells=cells, total=2)
    [done] = await notebook.ended(conversation_id)
    assert "Several cells have the id c1" in done["result"]


async def test_a_page_in_which_the_user_has_just_typed_refuses_and_the_model_is_told_what(
    notebook: Notebook, open_page: OpenPages
) -> None:
    page = await open_page("cells.ipynb")
    conversation_id, request = await edited_in(page, notebook)
    cell = {"cell_id": "c1", "cell_type": "code", "index": 0, "source": "typed = 12"}
    await page.answers(request, cells=[cell], total=1, refusal="changed")
    [done] = await notebook.ended(conversation_id)
    assert done["state"] == "error"
    assert "Its source now:\ntyped = 12\nThe difference:" in done["result"]
    assert "-typed = 1\n+typed = 12" in done["result"]


@pytest.mark.parametrize(
    ("back", "state", "text"),
    [
        ("x = 21\nx * 2", "success", "Edited cell:c1"),
        ("typed = 1", "error", "Nothing was changed: send the call again."),
        (None, "unknown", "nobody can say whether the cell c1 was changed"),
    ],
)
async def test_a_page_that_is_loaded_again_while_it_is_asked_has_changed_the_cell_once_or_honestly_not(
    notebook: Notebook,
    open_page: OpenPages,
    monkeypatch: pytest.MonkeyPatch,
    back: str | None,
    state: str,
    text: str,
) -> None:
    page = await open_page("cells.ipynb")
    conversation_id, _ = await edited_in(page, notebook)
    if back is None:
        monkeypatch.setattr(editor, "PAGE_SECONDS", 0.2)
    await page.leave()
    if back is not None:
        again = await open_page("cells.ipynb")
        assert (await again.shows(back))["ask"]["type"] == "read", "it is not sent twice"
    [done] = await notebook.ended(conversation_id)
    assert done["state"] == state
    assert text in (done["result"] or done["reason"])
    assert notebook.cells()[0].source == "x = 20"


@pytest.mark.parametrize("said", ["no JSON", '{"type": "other"}', '{"type": "notebooks", "notebooks": [{}]}'])
async def test_a_page_that_says_what_is_no_message_is_disconnected(server: Server, said: str) -> None:
    socket = await server.open_socket("agent-kernel", "api", "pages")
    await socket.write_message(said)
    async with asyncio.timeout(30):
        assert await socket.read_message() is None
    assert socket.close_code == 1007
    socket.close()


async def test_pages_of_other_origins_and_without_a_token_are_refused(server: Server, jp_fetch: Fetch) -> None:
    for headers in ({"Origin": "https://elsewhere.example"}, {"Authorization": ""}):
        with pytest.raises(HTTPClientError) as refused:
            await server.open_socket("agent-kernel", "api", "pages", headers=headers)
        assert refused.value.code == 403


# Notebooks and cells that are not as they should be


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        ("running", "The cell c1 is running. Nothing was done."),
        ("read_only", "This notebook is read-only. Nothing was changed."),
        ("locked", "The cell c1 is locked"),
        ("failed", "It could not be done. It broke."),
    ],
)
async def test_what_a_page_does_not_do_is_told_with_its_reason(
    notebook: Notebook, open_page: OpenPages, refusal: str, text: str
) -> None:
    page = await open_page("cells.ipynb")
    conversation_id, request = await edited_in(page, notebook)
    await page.answers(request, refusal=refusal, detail="It broke." if refusal == "failed" else "")
    [done] = await notebook.ended(conversation_id)
    assert (done["state"], text in done["result"]) == ("error", True), done["result"]


async def test_the_card_shows_the_difference_in_the_language_of_the_notebook(
    notebook: Notebook, open_page: OpenPages, api: Api
) -> None:
    page = await open_page("cells.ipynb")
    conversation_id = await notebook.ask(call("edit_cell", cell_id="c1", source="x <- 21"), decides=False)
    for _ in range(2):
        await page.shows("x <- 20", language="R")
    assert (await api.next_approval())["preview"]["language"] == "R"
    await notebook.approve()
    await page.shows("x <- 20", language="R")
    await page.shows("x <- 21", language="R")
    [done] = await notebook.ended(conversation_id)
    assert done["state"] == "success"


async def test_a_notebook_that_is_renamed_while_a_card_waits_is_changed_under_its_new_name(
    notebook: Notebook, server: Server, kernel: Kernel
) -> None:
    conversation_id = await notebook.ask(EDIT, decides=False)
    await until_asked(notebook)
    [session] = json.loads((await server.fetch("api", "sessions")).body)
    for place in (("contents", "cells.ipynb"), ("sessions", session["id"])):
        await server.fetch("api", *place, method="PATCH", body=json.dumps({"path": "renamed.ipynb"}))
    notebook.path = notebook.path.with_name("renamed.ipynb")
    await notebook.approve()
    [done] = await notebook.ended(conversation_id)
    assert done["result"].startswith("Edited cell:c1 of renamed.ipynb")
    assert notebook.cells()[0].source == "x = 21\nx * 2"


async def test_an_edit_in_the_file_gives_no_trust_to_what_others_have_put_there(
    notebook: Notebook, server: Server
) -> None:
    script = {"output_type": "display_data", "data": {"text/html": "<script>1</script>"}, "metadata": {}}
    notebook.write(c1={"outputs": [script]}, c2={"cell_type": "code", "outputs": [script], "execution_count": 1})
    [done] = await notebook.ended(await notebook.ask(EDIT))
    assert done["state"] == "success"
    model = json.loads((await server.fetch("api", "contents", "cells.ipynb")).body)
    assert [cell["metadata"] for cell in model["content"]["cells"]] == [{"trusted": False}, {"trusted": False}]
    assert [cell.metadata for cell in notebook.cells()] == [{}, {}]


async def test_a_file_that_may_not_be_written_is_left_as_it_is(
    notebook: Notebook, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = notebook.path.read_bytes()
    monkeypatch.setattr(type(server.app.contents_manager), "is_writable", lambda *_: False)
    [done] = await notebook.ended(await notebook.ask(EDIT))
    assert (done["state"], "This notebook is read-only. Nothing was changed." in done["result"]) == ("error", True)
    assert notebook.path.read_bytes() == before


@pytest.mark.parametrize("cell_type", ["raw", "sql"])
async def test_a_cell_of_another_kind_is_not_run(notebook: Notebook, cell_type: str) -> None:
    notebook.path.write_text(notebook.path.read_text().replace('"markdown"', f'"{cell_type}"'))
    [done] = await notebook.ended(await notebook.ask(call("run_cell", cell_id="c2")))
    assert (done["state"], "The cell c2 is of a type that can't be run." in done["result"]) == ("error", True)


@pytest.mark.filterwarnings("ignore:Non-unique cell id")
async def test_of_two_cells_with_one_id_in_the_file_the_first_has_it_and_the_other_gets_its_own(
    notebook: Notebook,
) -> None:
    notebook.path.write_text(notebook.path.read_text().replace('"c2"', '"c1"'))
    [done] = await notebook.ended(await notebook.ask(EDIT))
    assert done["state"] == "success", done["result"]
    assert [cell.source for cell in notebook.cells()] == ["x = 21\nx * 2", "# Title"]


class Reformats(AsyncLargeFileManager):
    """As a formatter, or jupytext with a text file beside the notebook: what is saved has another form afterwards."""

    async def save(self, model: Any, path: str = "") -> Any:
        for cell in model["content"]["cells"]:
            cell["source"] = "".join(cell["source"]).replace(" * ", "*")
        return await super().save(model, path)


@pytest.mark.parametrize("server_traits", [{"contents_manager_class": Reformats}])
async def test_a_cell_that_is_saved_in_another_form_is_told_as_it_is_and_can_be_changed_next(
    notebook: Notebook,
) -> None:
    again = call("edit_cell", cell_id="c1", source="x = 22")
    first, second = await notebook.ended(await notebook.ask(EDIT, again))
    assert "Its source now:\nx = 21\nx*2" in first["result"]
    assert (first["state"], second["state"], notebook.cells()[0].source) == ("success", "success", "x = 22")


# Undo


async def undone(api: Api, conversation_id: str) -> dict[str, Any]:
    """Undo the conversation's only run: by tool, why not, or `None`."""
    _, conversation = await api("GET", "conversations", conversation_id)
    run_id = conversation["tool_calls"][0]["run_id"]
    status, answer = await api("POST", "conversations", conversation_id, "runs", run_id, "undo")
    assert status == 200
    return {one["tool_name"]: one["refusal"] for one in answer["changes"]}


async def test_a_run_is_undone_in_cells_and_files_the_last_change_first(notebook: Notebook, api: Api) -> None:
    written = notebook.path.with_name("written.md")
    turns = [
        EDIT,
        call("insert_cell", source="new", after="c1"),
        call("move_cell", cell_id="c1", after=None),
        call("delete_cell", cell_id="c2"),
        call("write_file", path=str(written), content="new\n"),
    ]
    before = [dict(cell) for cell in notebook.cells()]
    conversation_id = await notebook.ask(*turns)
    assert {one["state"] for one in await notebook.ended(conversation_id)} == {"success"}
    assert written.exists()
    done = await undone(api, conversation_id)
    assert done == dict.fromkeys(["write_file", "delete_cell", "move_cell", "insert_cell", "edit_cell"])
    assert list(done) == ["write_file", "delete_cell", "move_cell", "insert_cell", "edit_cell"]
    assert [dict(cell) for cell in notebook.cells()] == before
    assert not written.exists()
    assert await undone(api, conversation_id) == done, "asked again, nothing is put back twice"


async def test_what_the_user_has_changed_since_the_run_stays_and_is_said(
    notebook: Notebook, api: Api, kernel: Kernel
) -> None:
    added = call("insert_cell", source="new", after="c1")
    moved = call("move_cell", cell_id="c2", after=None)
    conversation_id = await notebook.ask(EDIT, added, moved)
    await notebook.ended(conversation_id)
    cells = json.loads(notebook.path.read_text())
    assert [cell["id"] for cell in cells["cells"]][:2] == ["c2", "c1"]
    cells["cells"][1]["source"] = "mine"
    cells["cells"].append(cells["cells"].pop(0))
    notebook.path.write_text(json.dumps(cells))
    done = await undone(api, conversation_id)
    assert done == {
        "move_cell": "The cell c2 was moved since. Nothing was put back.",
        "insert_cell": None,
        "edit_cell": "The cell c1 was changed since. Nothing was put back.",
    }
    assert [cell.source for cell in notebook.cells()] == ["mine", "# Title"]
    _, listed = await api("GET", "changes", params={"kernel_id": kernel.kernel_id})
    states = {one["tool_name"]: one["state"] for one in listed if one["conversation_id"] == conversation_id}
    assert states == {"edit_cell": "changed", "insert_cell": "undone", "move_cell": "changed"}


async def test_an_edit_whose_cell_then_failed_is_undone_by_its_card_and_the_model_is_told(
    notebook: Notebook, api: Api, model: FakeOpenAI
) -> None:
    conversation_id = await notebook.ask(call("edit_cell", cell_id="c1", source="1 / 0", run=True))
    [done] = await notebook.ended(conversation_id)
    assert (done["state"], bool(done["undo"])) == ("error", True)
    assert (await api("POST", "approvals", done["approval_id"], "undo"))[0] == 200
    assert notebook.cells()[0].source == "x = 20"
    model.add(say("I see."))
    await api.start_run(conversation_id, "And now?")
    await api.ended(conversation_id)
    said = [one["content"] for one in model.requests[-1].body["messages"] if one["role"] == "user"]
    assert said[1] == "I have undone your edit_cell call: cell:c1 is as it was before."


async def test_a_page_undoes_an_edit_unless_the_user_has_typed_in_the_cell(
    notebook: Notebook, open_page: OpenPages, api: Api
) -> None:
    page = await open_page("cells.ipynb")
    conversation_id, request = await edited_in(page, notebook)
    cell = {"cell_id": "c1", "cell_type": "code", "index": 0, "source": "x = 21\nx * 2"}
    await page.answers(request, cells=[cell], total=1)
    await notebook.ended(conversation_id)
    asked = asyncio.create_task(undone(api, conversation_id))
    request = await page.shows("typed since", refusal="changed")
    assert (request["ask"]["expected"], request["ask"]["source"]) == ("x = 21\nx * 2", "typed = 1")
    assert await asked == {"edit_cell": "The cell c1 was changed since. Nothing was put back."}
    asked = asyncio.create_task(undone(api, conversation_id))
    await page.shows("typed = 1")
    assert await asked == {"edit_cell": None}


async def test_a_run_that_has_changed_nothing_is_undone_without_effect(notebook: Notebook, api: Api) -> None:
    conversation_id = await notebook.ask(call("run_cell", cell_id="c1"))
    await notebook.ended(conversation_id)
    assert await undone(api, conversation_id) == {}
