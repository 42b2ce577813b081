"""A page of another origin, as a browser lets it ask: first whether it may, without the token; then with it."""

import json
from typing import Any

import pytest
from tornado.httpclient import HTTPResponse

from tests.server.client import Fetch
from tests.server.serving import Server

FRIEND = "https://friend.example"
ALLOWED = "Access-Control-Allow-Origin"


@pytest.fixture
def server_traits() -> dict[str, Any]:
    return {"allow_origin": FRIEND}


async def answer(fetch: Fetch, *path: str, **options: Any) -> HTTPResponse:
    """The answer, also where it is an error."""
    headers = {"Origin": FRIEND, **options.pop("headers", {})}
    return await fetch("agent-kernel", "api", *path, headers=headers, raise_error=False, **options)


async def test_a_browser_that_asks_first_is_told_that_the_page_may_send_its_token(server: Server) -> None:
    asks = {
        "Authorization": "",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    for path in (("ai-sdk", "chat"), ("conversations", "c", "events"), ("status",)):
        told = await answer(server.fetch, *path, method="OPTIONS", headers=asks)
        assert (told.code, told.headers[ALLOWED], told.body) == (200, FRIEND, b"")
        assert "authorization" in told.headers["Access-Control-Allow-Headers"]


@pytest.mark.parametrize("known", [True, False], ids=["refused", "without a token"])
async def test_a_page_of_an_allowed_origin_can_read_why_it_is_refused(server: Server, known: bool) -> None:
    refused = await answer(
        server.fetch, "ai-sdk", "chat", method="POST", body="{}", headers={} if known else {"Authorization": ""}
    )
    assert (refused.code, refused.headers[ALLOWED]) == (400 if known else 403, FRIEND)
    assert json.loads(refused.body)["message"]


async def test_pages_of_other_origins_are_not_allowed_to_read_answers(server: Server) -> None:
    answered = await answer(server.fetch, "status", headers={"Origin": "https://elsewhere.example"})
    assert answered.headers[ALLOWED] == FRIEND


async def test_who_has_the_token_may_ask_from_anywhere_but_a_browser_reads_nothing_to_other_pages(
    server: Server,
) -> None:
    """As with Jupyter's own routes: the token says who asks, so the origin is not looked at."""
    elsewhere = {"Origin": "https://elsewhere.example"}
    asked = await answer(server.fetch, "ai-sdk", "chat", method="POST", body="{}", headers=elsewhere)
    assert (asked.code, asked.headers[ALLOWED]) == (400, FRIEND)
    without = await answer(
        server.fetch, "ai-sdk", "chat", method="POST", body="{}", headers={**elsewhere, "Authorization": ""}
    )
    assert without.code == 404  # so does Jupyter answer a page of another origin
