"""The HTTP routes, as a script with the server's token sees them."""

import asyncio
import json
import os
import sqlite3
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.auth import Authorizer
from jupyter_server.serverapp import JupyterServerAuthWarning

from agent_kernel.testing import FakeOpenAI, say
from agent_kernel_server import service
from agent_kernel_server.handlers import HANDLERS
from tests.server.client import Api
from tests.server.serving import Server
from tests.waiting import until

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
    assert [one["conversation_id"] for one in await api.get("conversations")] == [made["conversation_id"]]
    assert await api.get("conversations", made["conversation_id"]) == made
    assert await api("DELETE", "conversations", made["conversation_id"]) == (204, None)
    assert await api.get("conversations") == []
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
    *(("GET", path, None) for path in ("conversations/nowhere", "conversations/nowhere/events", "nowhere")),
    ("DELETE", "conversations/nowhere", None),
    ("POST", "conversations/nowhere/runs", {"content": "Hello"}),
    ("POST", "approvals/nowhere", {"approved": True}),
    ("POST", "conversations/nowhere/runs/r/cancel", None),
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
    ("approvals/a", {"approved": True, "edited_input": 7}, "edited_input"),
    ("conversations/c/policy", {"mode": "read"}, "mode"),
    ("conversations/c/runs", {"content": ""}, "content"),
    ("conversations/c/runs/r/budget", {"pause_id": "p", "add": {"steps": 0}}, "add.steps"),
    ("conversations", "{not json", "body"),
    ("approvals/a", '{"approved": false, "approved": true}', "body"),
    ("approvals/a", "[" * 100_000, "body"),
]


async def test_a_body_that_does_not_validate_is_400_with_the_field_named(api: Api) -> None:
    for path, body, field in INVALID:
        status, answer = await api("POST", *path.split("/"), body=body)
        assert (status, answer["field"]) == (400, field), (path, body)
        assert field in answer["message"]


INVALID_QUERIES = [
    *(("conversations", "limit", value) for value in ("many", "-1", "9" * 5_000)),
    ("metrics", "days", "0"),
    ("approvals", "state", "running"),
]


async def test_a_query_that_says_nothing_is_400_with_the_field_named(api: Api) -> None:
    for what, field, value in INVALID_QUERIES:
        status, answer = await api("GET", what, params={field: value})
        assert (status, answer["field"]) == (400, field), (what, value[:20])
        assert field in answer["message"]


async def test_jupyter_sees_that_every_route_is_authenticated(server: Server) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", JupyterServerAuthWarning)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(server.app.web_app.settings, "allow_unauthenticated_access", False)
            server.app.web_app.add_handlers(".*$", HANDLERS)  # as Jupyter adds those of an extension


@pytest.mark.usefixtures("fresh")
async def test_only_a_notebook_with_a_prompt_imports_what_a_first_run_needs(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[str] = []
    monkeypatch.setattr(service, "import_libraries", lambda: imported.append(opened))
    for opened, source in (("plain", "1 + 1"), ("asks", "%%agent\nGo."), ("asks again", "%%agent\nGo.")):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
        nbformat.write(notebook, server.root / f"{opened}.ipynb")
        await server.fetch("api", "contents", f"{opened}.ipynb")
        await server.fetch("api", "contents")  # by now the notebook has been looked at, or is
        await until(lambda: all(task.get_name() != "imports" for task in asyncio.all_tasks()))
    assert imported == ["asks"]


class ReadOnly(Authorizer):
    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return action == "read"


@pytest.mark.parametrize("server_traits", [{"authorizer_class": ReadOnly}])
async def test_a_reader_may_look_and_nothing_else(api: Api) -> None:
    for method, path in ROUTES:
        status, _ = await api(method, *path)
        assert status in ((200, 204, 404) if method == "GET" else (403,)), path


@pytest.mark.usefixtures("fresh")
async def test_kernels_learn_which_server_serves_them(api: Api, server: Server) -> None:
    assert os.environ["AGENT_KERNEL_SERVER_PID"] == str(os.getpid())
    await server.extension.stop_extension()
    assert "AGENT_KERNEL_SERVER_PID" not in os.environ


class TestALogOfAnotherSchema:
    @pytest.fixture
    def extension_traits(self, tmp_path: Path) -> dict[str, Any]:
        with closing(sqlite3.connect(tmp_path / "agent-kernel.sqlite")) as sql:
            sql.execute("PRAGMA user_version = 15")
        return {"data_dir": str(tmp_path)}

    async def test_is_told_to_whoever_asks_for_a_conversation(self, api: Api, tmp_path: Path) -> None:
        status, body = await api("POST", "conversations")
        assert status == 503
        assert f"The log at {tmp_path / 'agent-kernel.sqlite'} is from before" in body["message"]
        (tmp_path / "agent-kernel.sqlite").rename(tmp_path / "away")
        assert (await api("POST", "conversations"))[0] == 201, "no restart is needed"


async def test_conversations_are_listed_whole_and_in_pages(api: Api, model: FakeOpenAI) -> None:
    model.add(say("Four."))
    names = [await api.new_conversation() for _ in range(3)]
    await api.start_run(names[1], "What is 2 + 2?")
    whole = await api.ended(names[1])
    listed = await api.get("conversations")
    assert [one["conversation_id"] for one in listed] == names
    assert listed[1] == whole
    assert await api.get("conversations", after=names[0], limit="1") == [whole]
    assert await api.get("conversations", limit="0") == []
    assert (await api("GET", "conversations", params={"after": "nowhere"}))[0] == 404
