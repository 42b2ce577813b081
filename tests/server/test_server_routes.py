"""The HTTP routes, as a script with the server's token sees them."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.auth import Authorizer
from jupyter_server.serverapp import JupyterServerAuthWarning
from tornado.httpclient import HTTPClientError

from agent_kernel.testing import FakeOpenAI, say
from agent_kernel_server.handlers import HANDLERS, front_end_folders
from tests.server.client import Api
from tests.server.serving import Server

PATHS = {
    "GET": """
        status tools models usage metrics conversations conversations/c conversations/c/events ai-sdk/chat/c
        ai-sdk/chat/c/stream approvals runs audit mcp-servers clients rules
    """,
    "POST": """
        conversations conversations/c/runs conversations/c/policy ai-sdk/chat
        approvals/a approvals/a/outcome approvals/a/undo approvals/a/redo approvals/a/cancel approvals/a/result
        conversations/c/runs/r/budget conversations/c/runs/r/retry conversations/c/runs/r/undo
        conversations/c/runs/r/redo conversations/c/runs/r/try-now conversations/c/runs/r/cancel
    """,
    "DELETE": "conversations/c clients/x rules/r",
}
ROUTES = [(method, tuple(path.split("/"))) for method, paths in PATHS.items() for path in paths.split()]


@pytest.fixture
def server_traits() -> dict[str, Any]:
    """Below a path with a quoted character, as of a JupyterHub's user."""
    return {"base_url": "/a%40b/"}


async def test_status_and_tools_say_what_there_is_and_no_secret(api: Api, model: FakeOpenAI) -> None:
    body = await api.get("status")
    assert (body["protocol"], body["model"], body["kernels"]) == (1, "fake", [])
    assert not [secret for secret in (model.environment()["OPENAI_API_KEY"], model.url) if secret in json.dumps(body)]
    tools = {tool["name"]: tool for tool in await api.get("tools")}
    assert {"run_python", "inspect_variables", "ask_user"} <= set(tools)
    assert set(tools["run_python"]) == {"name", "description", "parameters", "approval"}
    assert tools["run_python"]["parameters"]["type"] == "object"


async def test_a_conversation_is_made_listed_read_and_deleted(api: Api) -> None:
    status, made = await api("POST", "conversations", body={})
    assert (status, made["status"]) == (201, "idle")
    assert (made["kernel_id"], made["messages"], made["tool_calls"], made["last_seq"]) == (None, [], [], 0)
    later = await api.new_conversation()
    listed = await api.get("conversations")
    assert [one["conversation_id"] for one in listed] == [made["conversation_id"], later]
    assert await api.get("conversations", after=made["conversation_id"], limit="1") == listed[1:]
    assert await api.get("conversations", made["conversation_id"]) == listed[0] == made
    assert await api("DELETE", "conversations", made["conversation_id"]) == (204, None)
    assert await api.get("conversations") == listed[1:]
    assert (await api("GET", "conversations", made["conversation_id"]))[0] == 404


async def test_a_run_without_a_kernel_has_no_tools_and_the_effort_that_the_script_wants(
    api: Api, model: FakeOpenAI
) -> None:
    model.add(say("Four."), say("Four again."))
    conversation_id = await api.new_conversation()
    body = {"content": "What is 2 + 2?", "effort": "high"}
    assert (await api("POST", "conversations", conversation_id, "runs", body=body))[0] == 201
    view = await api.ended(conversation_id)
    assert [(one["status"], one["effort"]) for one in view["runs"]] == [("complete", "high")]
    said = [(one["role"], one["content"]) for one in view["messages"]]
    assert said == [("user", "What is 2 + 2?"), ("assistant", "Four.")]
    await api.start_run(conversation_id, "And now?")
    await api.ended(conversation_id)
    first, second = (request.body for request in model.requests)
    assert (first["reasoning_effort"], "reasoning_effort" in second, first.get("tools")) == ("high", False, None)


UNKNOWN: list[tuple[str, str, Any]] = [
    ("GET", "conversations/nowhere", None),
    ("DELETE", "conversations/nowhere", None),
    ("POST", "conversations/nowhere/runs", {"content": "Hello"}),
    ("POST", "approvals/nowhere", {"approved": True}),
    ("POST", "conversations", {"kernel_id": "nowhere"}),
]


async def test_an_unknown_id_is_404_with_a_message(api: Api) -> None:
    for method, path, body in UNKNOWN:
        status, answer = await api(method, *path.split("/"), body=body)
        assert (status, "nowhere" in answer["message"]) == (404, True), path
    assert await api.get("conversations") == []


INVALID: list[tuple[str, Any, str]] = [
    ("approvals/a", {"approved": "yes"}, "approved"),
    ("approvals/a", {"approved": True, "scope": "forever"}, "scope"),
    ("conversations/c/runs/r/budget", {"pause_id": "p", "add": {"steps": 0}}, "add.steps"),
    ("conversations", "{not json", "body"),
]


async def test_a_body_or_a_query_that_does_not_validate_is_400_with_the_field_named(api: Api) -> None:
    answers = [(await api("POST", *path.split("/"), body=body), field) for path, body, field in INVALID]
    answers.append((await api("GET", "conversations", params={"limit": "many"}), "limit"))
    answers.append((await api("GET", "approvals", params={"state": "running"}), "state"))
    for (status, answer), field in answers:
        assert (status, answer["field"], field in answer["message"]) == (400, field, True), answer


async def test_jupyter_sees_that_every_route_is_authenticated(server: Server) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", JupyterServerAuthWarning)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(server.app.web_app.settings, "allow_unauthenticated_access", False)
            server.app.web_app.add_handlers(".*$", HANDLERS)  # as Jupyter adds those of an extension


class ReadOnly(Authorizer):
    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return action == "read"


@pytest.mark.parametrize("server_traits", [{"authorizer_class": ReadOnly}])
async def test_a_reader_may_look_and_nothing_else(api: Api) -> None:
    for method, path in ROUTES:
        status, _ = await api(method, *path)
        assert status in ((200, 204, 404) if method == "GET" else (403,)), path


FRIEND = "https://friend.example"
ALLOWED = "Access-Control-Allow-Origin"
CHAT = ("ai-sdk", "chat")


@pytest.mark.parametrize("server_traits", [{"allow_origin": FRIEND}])
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


@pytest.mark.parametrize("server_traits", [{"allow_origin": FRIEND}])
async def test_a_page_of_an_allowed_origin_can_read_why_it_is_refused(server: Server) -> None:
    headers = {"Origin": FRIEND, "Authorization": ""}
    refused = await server.fetch(
        "agent-kernel", "api", *CHAT, method="POST", body="{}", headers=headers, raise_error=False
    )
    assert (refused.code, refused.headers[ALLOWED]) == (403, FRIEND)
    assert json.loads(refused.body)["message"]


FOLDER = Path(front_end_folders()[0])
PARTS = sorted(path.name for path in FOLDER.glob("*.js"))
FIRST = next(name for name in PARTS if name.startswith("cards-"))


@pytest.mark.parametrize("name", PARTS)
async def test_every_part_is_served_without_a_token_as_jupyters_own_files_and_cached_for_good(
    server: Server, name: str
) -> None:
    answer = await server.fetch("agent-kernel", "static", name, headers={"Authorization": ""})
    assert answer.body == (FOLDER / name).read_bytes()
    assert answer.headers["Content-Type"] in ("text/javascript", "application/javascript")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert "username" not in answer.headers.get("Set-Cookie", "")
    assert re.search(rb"sourceMappingURL|/home/|node_modules/", answer.body) is None


@pytest.mark.parametrize("path", ["cards-00000000.js", "index.js", "..%2Findex.js", f"{FIRST}/x"])
async def test_a_version_that_is_not_here_and_any_other_file_is_not_found_and_not_cached(
    server: Server, path: str
) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await server.fetch("agent-kernel", "static", path)
    assert refused.value.code == 404
    assert "immutable" not in (refused.value.response or pytest.fail("no answer")).headers.get("Cache-Control", "")
