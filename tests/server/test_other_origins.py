"""A page of another origin, as a browser lets it ask: first whether it may, without the token; then with it."""

import json

import pytest

from tests.server.serving import Server

FRIEND = "https://friend.example"
ALLOWED = "Access-Control-Allow-Origin"
CHAT = ("ai-sdk", "chat")

pytestmark = pytest.mark.parametrize("server_traits", [{"allow_origin": FRIEND}])


async def test_a_browser_that_asks_first_is_told_that_the_page_may_send_its_token(server: Server) -> None:
    asks = {
        "Origin": FRIEND,
        "Authorization": "",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    for path in (CHAT, ("conversations", "c", "events"), ("status",)):
        told = await server.fetch("agent-kernel", "api", *path, method="OPTIONS", headers=asks)
        assert (told.code, told.headers[ALLOWED], told.body) == (200, FRIEND, b"")
        assert "authorization" in told.headers["Access-Control-Allow-Headers"]


async def test_a_page_of_an_allowed_origin_can_read_why_it_is_refused(server: Server) -> None:
    headers = {"Origin": FRIEND, "Authorization": ""}
    refused = await server.fetch(
        "agent-kernel", "api", *CHAT, method="POST", body="{}", headers=headers, raise_error=False
    )
    assert (refused.code, refused.headers[ALLOWED]) == (403, FRIEND)
    assert json.loads(refused.body)["message"]
