"""Nobody gets in who is not meant to: without a token, from a foreign page, by another name of the server, or past the
site's Authorizer."""

from typing import Any

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError

from tests.server.client import Api, Client, OpenChannel
from tests.server.serving import TOKEN, Server
from tests.server.test_server_routes import ROUTES

EVIL = {"Origin": "https://evil.example"}


def bound(path: tuple[str, ...], conversation_id: str) -> tuple[str, ...]:
    return tuple(conversation_id if part == "c" else part for part in path)


async def cookie_of(server: Server) -> str:
    """The cookies of a browser that has seen a page of the server, and whose user has logged in."""
    seen = await server.fetch("login", headers={"Authorization": ""})
    logged_in = await server.fetch("api", "me", params={"token": TOKEN}, headers={"Authorization": ""})
    cookies = [*seen.headers.get_list("Set-Cookie"), *logged_in.headers.get_list("Set-Cookie")]
    return "; ".join(one.split(";")[0] for one in cookies)


async def assert_kept_out(api: Api, client: OpenChannel, conversation_id: str, headers: dict[str, str]) -> None:
    for method, path in ROUTES:
        status, body = await api(method, *bound(path, conversation_id), headers=headers, body={"content": "Go."})
        assert (status in (403, 404), conversation_id in str(body)) == (True, False), (method, path, headers)
    with pytest.raises(HTTPClientError, match="403"):
        await client(conversation_id, headers=headers)
    views = await api.get("conversations")
    assert [(view["conversation_id"], view["runs"]) for view in views] == [(conversation_id, [])]


async def test_without_a_token_there_is_nothing_to_see_and_nothing_to_do(api: Api, client: OpenChannel) -> None:
    conversation_id = await api.new_conversation()
    for headers in ({"Authorization": ""}, {"Authorization": "token wrong"}, {"Authorization": "", **EVIL}):
        await assert_kept_out(api, client, conversation_id, headers)


async def test_a_foreign_page_cannot_use_a_logged_in_browser(api: Api, client: OpenChannel, server: Server) -> None:
    conversation_id = await api.new_conversation()
    browser = {"Authorization": "", "Cookie": await cookie_of(server)}
    own_page = {**browser, "Host": f"127.0.0.1:{server.port}", "Origin": f"http://127.0.0.1:{server.port}"}
    assert (await api("GET", "status", headers=own_page))[0] == 200
    page: Client = await client(conversation_id, headers=own_page)
    assert (await page.next())["type"] == "session"
    for origin in (EVIL, {"Origin": "null"}):
        await assert_kept_out(api, client, conversation_id, own_page | origin)


async def test_a_change_needs_the_xsrf_token_of_this_browser(api: Api, server: Server) -> None:
    conversation_id = await api.new_conversation()
    cookie = await cookie_of(server)
    browser = {"Authorization": "", "Cookie": cookie}
    for headers in (browser, {**browser, "X-XSRFToken": "2|guess|ed|0"}):
        for method, path in ROUTES:
            if method == "GET":
                continue
            status, _ = await api(method, *bound(path, conversation_id), headers=headers, body={"content": "Go."})
            assert status == 403, (method, path)
    assert (await api.get("conversations", conversation_id))["runs"] == []
    xsrf = next(one.removeprefix("_xsrf=") for one in cookie.split("; ") if one.startswith("_xsrf="))
    allowed = {**browser, "X-XSRFToken": xsrf}
    assert (await api("DELETE", "conversations", conversation_id, headers=allowed))[0] == 204


async def test_a_name_that_was_rebound_to_this_machine_is_refused(api: Api, client: OpenChannel) -> None:
    conversation_id = await api.new_conversation()
    rebound = {"Host": "evil.example", "Origin": "http://evil.example"}
    assert (await api("GET", "conversations", headers=rebound))[0] == 403
    with pytest.raises(HTTPClientError, match="403"):
        await client(conversation_id, headers=rebound)


class OnlyOwn(Authorizer):
    """A site's rule: the conversations whose ids it lists belong to somebody else."""

    theirs: set[str] = set()  # noqa: RUF012 -- a test's own

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        if resource != "agent-kernel":
            return True
        return not any(conversation_id in handler.request.path for conversation_id in OnlyOwn.theirs)


@pytest.mark.parametrize("server_traits", [{"authorizer_class": OnlyOwn}])
async def test_another_users_conversation_is_closed_where_the_authorizer_says_so(api: Api, client: OpenChannel) -> None:
    theirs, own = await api.new_conversation(), await api.new_conversation()
    watching: Client = await client(theirs)
    await watching.next()
    OnlyOwn.theirs.add(theirs)
    for method, path in ROUTES:
        if "c" in path:
            status, _ = await api(method, *bound(path, theirs), body={"content": "Go."})
            assert status == 403, (method, path)
    with pytest.raises(HTTPClientError, match="403"):
        await client(theirs)
    await watching.send({"type": "message", "content": "Go."})  # it was let in before; each command asks again
    assert (await watching.next())["code"] == "ACCESS_DENIED"
    assert (await api("GET", "conversations", own))[0] == 200
    OnlyOwn.theirs.clear()
    assert (await api("GET", "conversations", theirs))[1]["runs"] == []
