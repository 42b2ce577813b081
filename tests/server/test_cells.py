"""Cells of a notebook that the agent reads, changes and runs: in its file, where no page has it open, also where its
kernel has another language; and in the page that has it."""

import asyncio
import json
import sys
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from tornado.httpclient import HTTPClientError

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.server.cells import EDIT, READ, Notebook, OpenPages, edited_in, undone
from tests.server.client import Api, Kernel
from tests.server.mcp_client import connected, text_of
from tests.server.serving import Server

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_without_a_page_a_file_is_said_to_be_one_and_an_edit_touches_that_cell_only(notebook: Notebook) -> None:
    before = notebook.path.read_text().splitlines()
    read, done = await notebook.calls(await notebook.ask(EDIT))
    assert "This notebook (cells.ipynb), as it was saved " in read["result"]
    assert "(no page has it open): 2 cells" in read["result"]
    assert "[ ] cell:c1 (code, number 0)\nx = 20\n\ncell:c2 (markdown, number 1)\n# Title" in read["result"]
    assert done["state"] == "success"
    assert done["result"].startswith("Edited cell:c1 of cells.ipynb (in its file, as no page has it open).")
    changed = [line.strip() for line in notebook.path.read_text().splitlines() if line not in before]
    assert changed == ['"x = 21\\n",', '"x * 2"']


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


@pytest.mark.parametrize(
    ("turn", "reads", "changed", "text"),
    [
        (EDIT, False, {}, "You have not seen the source of the cell c1: read the notebook first"),
        (call("insert_cell", source="new", after="c9"), True, {}, "There is no cell c9"),
        (EDIT, True, {"c1": {"metadata": {"editable": False}}}, "The cell c1 is locked"),
    ],
)
async def test_what_is_not_seen_or_locked_is_refused_without_asking_anybody(
    notebook: Notebook, turn: ModelTurn, reads: bool, changed: dict[str, Any], text: str
) -> None:
    before = notebook.write(**changed)
    [done] = await notebook.ended(await notebook.ask(turn, reads=reads, decides=False))
    assert (done["state"], done["decided_at"]) == ("invalid", None)
    assert text in done["result"]
    assert notebook.path.read_bytes() == before


@pytest.mark.parametrize(
    ("changed", "texts"),
    [
        ({"source": "x = 30\ny = 2"}, ["was changed since you saw it. Nothing was done.", "-x = 20\n+x = 30\n+y = 2"]),
        ({"id": "other"}, ["There is no cell c1 in the notebook now."]),
    ],
)
async def test_a_cell_that_changed_while_its_card_waited_is_left_alone_and_told_as_it_is_now(
    notebook: Notebook, changed: dict[str, Any], texts: list[str]
) -> None:
    conversation_id = await notebook.ask(EDIT, decides=False)
    await notebook.until_asked()
    now = notebook.write(c1=changed)
    waiting = await notebook.approve()
    assert waiting["preview"]["kind"] == "diff"
    [done] = await notebook.ended(conversation_id)
    assert (done["state"], [text for text in texts if text not in done["result"]]) == ("error", [])
    assert notebook.path.read_bytes() == now


@pytest.mark.parametrize(
    ("mode", "asked", "states"),
    [
        ("plan", [], [("denied", "policy"), ("denied", "policy")]),
        ("ask", ["edit_cell", "run_cell"], [("denied", "user"), ("denied", "user")]),
        ("edit", ["run_cell"], [("success", "policy"), ("denied", "user")]),
    ],
)
async def test_the_mode_says_whether_a_cell_is_edited_and_run_unasked(
    notebook: Notebook,
    api: Api,
    model: FakeOpenAI,
    kernel: Kernel,
    mode: str,
    asked: list[str],
    states: list[tuple[str, str]],
) -> None:
    model.add(READ, calls(call("edit_cell", cell_id="c1", source="x = 21"), call("run_cell", cell_id="c1")), say("."))
    conversation_id = await api.begin(kernel, policy=mode)
    waiting = await api.all_waiting(len(asked)) if asked else []
    assert [one["tool_name"] for one in waiting] == asked
    for one in waiting:
        await api.decide(one, approved=False)
    assert [(one["state"], one["by"]) for one in await notebook.ended(conversation_id)] == states
    assert notebook.cells()[0].source == ("x = 21" if mode == "edit" else "x = 20")


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


async def test_a_notebook_that_became_read_only_while_its_card_waited_is_left_alone(
    notebook: Notebook, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = notebook.path.read_bytes()
    conversation_id = await notebook.ask(EDIT, decides=False)
    await notebook.until_asked()
    with monkeypatch.context() as patch:
        patch.setattr(type(server.app.contents_manager), "is_writable", lambda *_: False)
        await notebook.approve()
        [done] = await notebook.ended(conversation_id)
    assert (done["state"], "This notebook is read-only. Nothing was changed." in done["result"]) == ("error", True)
    assert notebook.path.read_bytes() == before


async def test_what_the_user_has_changed_since_the_run_stays_and_is_said(
    notebook: Notebook, api: Api, kernel: Kernel
) -> None:
    conversation_id = await notebook.ask(EDIT, call("insert_cell", source="new", after="c1"))
    await notebook.ended(conversation_id)
    cells = json.loads(notebook.path.read_text())
    cells["cells"][0]["source"] = "mine"
    notebook.path.write_text(json.dumps(cells))
    done = await undone(api, conversation_id)
    assert done == {"insert_cell": None, "edit_cell": "The cell c1 was changed since. Nothing was put back."}
    assert [cell.source for cell in notebook.cells()] == ["mine", "# Title"]
    listed = await api.get("changes", kernel_id=kernel.kernel_id)
    states = {one["tool_name"]: one["state"] for one in listed if one["conversation_id"] == conversation_id}
    assert states == {"edit_cell": "changed", "insert_cell": "undone"}


async def test_a_run_is_undone_in_cells_and_files_the_last_change_first(notebook: Notebook, api: Api) -> None:
    shown = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo="}, "metadata": {}}
    plot = {"cell_type": "code", "metadata": {"tags": ["plot"]}, "outputs": [shown], "execution_count": 7}
    notebook.write(c2=plot)
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
    after = [dict(cell) for cell in notebook.cells()]
    order = ["write_file", "delete_cell", "move_cell", "insert_cell", "edit_cell"]
    for way, cells in (("undo", before), ("undo", before), ("redo", after), ("undo", before), ("redo", after)):
        done = await undone(api, conversation_id, way)  # asked again, nothing is put back twice
        assert list(done.items()) == [(tool, None) for tool in (order if way == "undo" else order[::-1])]
        assert [dict(cell) for cell in notebook.cells()] == cells
        assert written.exists() == (way == "redo")
    assert written.read_text() == "new\n"


ECHO = """
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel
class Echo(Kernel):
    implementation = implementation_version = banner = "echo"
    language_info = {"name": "R", "mimetype": "text/x-r", "file_extension": ".r"}
    def do_execute(self, code, silent, *_, **__):
        if not silent:
            self.send_response(self.iopub_socket, "stream", {"name": "stdout", "text": code.upper()})
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}
IPKernelApp.launch_instance(kernel_class=Echo)
"""


class WithEcho(KernelSpecManager):
    """Knows a kernel that answers in capital letters."""

    def get_kernel_spec(self, kernel_name: str) -> Any:
        if kernel_name != "echo":
            return super().get_kernel_spec(kernel_name)
        argv = [sys.executable, "-c", ECHO, "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Echo", language="R")

    def get_all_specs(self) -> Any:
        return {**super().get_all_specs(), "echo": {"resource_dir": "", "spec": self.get_kernel_spec("echo").to_dict()}}


@pytest.mark.parametrize("server_traits", [{"kernel_spec_manager_class": WithEcho}])
async def test_a_cell_of_another_language_is_shown_in_it_changed_and_run(server: Server, api: Api) -> None:
    path = server.root / "sales.ipynb"
    written = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("y <- 1", id="one")])
    written.metadata = {"kernelspec": {"name": "echo", "display_name": "Echo"}, "language_info": {"name": "R"}}
    nbformat.write(written, path)
    change = {"notebook_path": path.name, "cell_id": "one", "source": "y <- 2", "run": True}
    async with connected(server) as client:
        assert "y <- 1" in text_of(await client.call_tool("read_notebook", {"notebook_path": path.name}))
        asked = asyncio.create_task(client.call_tool("edit_cell", change))
        card = await api.next_approval()
        assert (card["preview"]["kind"], card["preview"]["language"]) == ("diff", "R")
        await api.decide(card)
        done = text_of(await asked)
    assert "Ran cell:one as [1]:\n--- output: Y <- 2" in done
    [cell] = nbformat.read(path, as_version=4).cells
    assert (cell.source, cell.outputs[0].text) == ("y <- 2", "Y <- 2")


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
    await page.shows("x = 21\nx * 2", request)
    [done] = await notebook.ended(conversation_id)
    assert done["result"].startswith("Edited cell:c1 of cells.ipynb (as the page shows it now).")
    assert notebook.path.read_bytes() == before


@pytest.mark.parametrize(
    ("refusal", "texts"),
    [
        ("changed", ["Its source now:\ntyped = 12\nThe difference:", "-typed = 1\n+typed = 12"]),
        ("failed", ["It could not be done. It broke."]),
    ],
)
async def test_what_a_page_does_not_do_is_told_with_its_reason(
    notebook: Notebook, open_page: OpenPages, refusal: str, texts: list[str]
) -> None:
    page = await open_page("cells.ipynb")
    conversation_id, request = await edited_in(page, notebook)
    await page.shows("typed = 12", request, refusal=refusal, detail="It broke." if refusal == "failed" else "")
    [done] = await notebook.ended(conversation_id)
    assert (done["state"], [text for text in texts if text not in done["result"]]) == ("error", [])


async def test_a_page_that_goes_away_while_it_is_asked_leaves_an_unknown_outcome_and_its_file_alone(
    notebook: Notebook, open_page: OpenPages
) -> None:
    page = await open_page("cells.ipynb")
    conversation_id, _ = await edited_in(page, notebook)
    await page.leave()
    [done] = await notebook.ended(conversation_id)
    assert (done["state"], "nobody can say whether the cell c1 was changed" in done["reason"]) == ("unknown", True)
    assert notebook.cells()[0].source == "x = 20"


async def test_a_page_that_is_loading_again_when_its_card_is_approved_is_waited_for(
    notebook: Notebook, open_page: OpenPages
) -> None:
    page = await open_page("cells.ipynb")
    conversation_id = await notebook.ask(EDIT, decides=False)
    for _ in range(2):  # read_notebook, and the card
        await page.shows("typed = 1")
    await notebook.until_asked()
    await page.leave()
    await notebook.approve()
    again = await open_page("cells.ipynb")
    await again.shows("typed = 1")
    await again.shows("x = 21\nx * 2")
    [done] = await notebook.ended(conversation_id)
    assert done["result"].startswith("Edited cell:c1 of cells.ipynb (as the page shows it now).")
    assert notebook.cells()[0].source == "x = 20", "its file is the page's to save"


@pytest.mark.parametrize(
    ("becomes", "state", "text"),
    [
        ("refused", "error", "It was not run. The cell c1 is running."),
        ("deleted", "unknown", "The cell c1 was deleted while it ran."),
        ("lost", "unknown", "The page that ran the cell c1 went away."),
    ],
)
async def test_what_becomes_of_running_a_changed_cell_is_told_with_the_change_which_can_be_undone(
    notebook: Notebook, open_page: OpenPages, becomes: str, state: str, text: str
) -> None:
    page = await open_page("cells.ipynb")
    edit = call("edit_cell", cell_id="c1", source="x = 21", run=True)
    conversation_id, request = await edited_in(page, notebook, edit)
    await page.shows("x = 21", request)
    request = await page.asked()
    assert request["ask"]["type"] == "run"
    if becomes == "lost":
        await page.leave()
    elif becomes == "refused":
        await page.shows("x = 21", request, refusal="running")
    else:
        await page.answers(request, cells=[], success=False)
    [done] = await notebook.ended(conversation_id)
    told = done["result"] or done["reason"]
    assert (done["state"], bool(done["undo"])) == (state, True), told
    assert "Edited cell:c1 of cells.ipynb (as the page shows it now)." in told
    assert text in told
    assert "Nothing was" not in told


async def test_pages_of_other_origins_and_without_a_token_are_refused(server: Server) -> None:
    for headers in ({"Origin": "https://elsewhere.example"}, {"Authorization": ""}):
        with pytest.raises(HTTPClientError) as refused:
            await server.open_socket("agent-kernel", "api", "pages", headers=headers)
        assert refused.value.code == 403


async def test_a_page_undoes_an_edit_unless_the_user_has_typed_in_the_cell(
    notebook: Notebook, open_page: OpenPages, api: Api
) -> None:
    page = await open_page("cells.ipynb")
    conversation_id, request = await edited_in(page, notebook)
    await page.shows("x = 21\nx * 2", request)
    await notebook.ended(conversation_id)
    asked = asyncio.create_task(undone(api, conversation_id))
    request = await page.shows("typed since", refusal="changed")
    assert (request["ask"]["expected"], request["ask"]["source"]) == ("x = 21\nx * 2", "typed = 1")
    assert await asked == {"edit_cell": "The cell c1 was changed since. Nothing was put back."}
    asked = asyncio.create_task(undone(api, conversation_id))
    await page.shows("typed = 1")
    assert await asked == {"edit_cell": None}
