"""Cells of a notebook that the agent reads, changes and runs in the page that has it open."""

import asyncio

import pytest
from tornado.httpclient import HTTPClientError

from agent_kernel.testing import call
from tests.server.cells import EDIT, Notebook, OpenPages, edited_in, undone
from tests.server.client import Api
from tests.server.serving import Server

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
