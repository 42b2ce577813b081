"""The HTTP routes, as a script with the server's token sees them."""

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
from agent_kernel.testing.wire.reply import rate_limited
from agent_kernel_server import service
from agent_kernel_server.handlers import HANDLERS
from tests.server.client import Api
from tests.server.serving import Server
from tests.waiting import look_until, until

ROUTES = [
    ("GET", ("status",)),
    ("GET", ("tools",)),
    ("GET", ("models",)),
    ("GET", ("usage",)),
    ("GET", ("metrics",)),
    ("GET", ("conversations",)),
    ("POST", ("conversations",)),
    ("GET", ("conversations", "c")),
    ("DELETE", ("conversations", "c")),
    ("GET", ("conversations", "c", "events")),
    ("POST", ("conversations", "c", "runs")),
    ("POST", ("conversations", "c", "policy")),
    ("POST", ("ai-sdk", "chat")),
    ("GET", ("ai-sdk", "chat", "c")),
    ("GET", ("ai-sdk", "chat", "c", "stream")),
    ("GET", ("approvals",)),
    ("POST", ("approvals", "a")),
    ("POST", ("approvals", "a", "outcome")),
    ("POST", ("approvals", "a", "undo")),
    ("POST", ("approvals", "a", "redo")),
    ("POST", ("approvals", "a", "cancel")),
    ("POST", ("approvals", "a", "result")),
    ("GET", ("runs",)),
    ("POST", ("conversations", "c", "runs", "r", "budget")),
    ("POST", ("conversations", "c", "runs", "r", "retry")),
    ("POST", ("conversations", "c", "runs", "r", "undo")),
    ("POST", ("conversations", "c", "runs", "r", "redo")),
    ("POST", ("conversations", "c", "runs", "r", "try-now")),
    ("POST", ("conversations", "c", "runs", "r", "cancel")),
    ("POST", ("conversations", "c", "messages")),
    ("GET", ("audit",)),
    ("GET", ("mcp-servers",)),
    ("GET", ("clients",)),
    ("DELETE", ("clients", "x")),
    ("GET", ("rules",)),
    ("DELETE", ("rules", "r")),
]


@pytest.fixture
def server_traits() -> dict[str, Any]:
    """Below a path with a quoted character, as of a JupyterHub's user."""
    return {"base_url": "/a%40b/"}


async def test_status_names_the_version_the_protocol_and_the_model_and_no_secret(api: Api, model: FakeOpenAI) -> None:
    status, body = await api("GET", "status")
    assert status == 200
    assert body["protocol"] == 1
    assert body["model"] == "fake"
    assert body["kernels"] == []
    assert model.environment()["OPENAI_API_KEY"] not in json.dumps(body)
    assert model.url not in json.dumps(body)


async def test_the_list_of_tools_is_an_array_with_their_parameters(api: Api) -> None:
    status, body = await api("GET", "tools")
    assert status == 200
    tools = {tool["name"]: tool for tool in body}
    assert {"run_python", "inspect_variables", "ask_user"} <= set(tools)
    assert set(tools["run_python"]) == {"name", "description", "parameters", "approval"}
    assert tools["run_python"]["parameters"]["type"] == "object"


async def test_a_conversation_is_made_listed_read_and_deleted(api: Api) -> None:
    status, made = await api("POST", "conversations", body={})
    assert status == 201
    assert made["status"] == "idle"
    assert (made["kernel_id"], made["messages"], made["tool_calls"], made["last_seq"]) == (None, [], [], 0)
    assert [one["conversation_id"] for one in (await api("GET", "conversations"))[1]] == [made["conversation_id"]]
    assert (await api("GET", "conversations", made["conversation_id"]))[1] == made
    assert await api("DELETE", "conversations", made["conversation_id"]) == (204, None)
    assert (await api("GET", "conversations"))[1] == []
    assert (await api("GET", "conversations", made["conversation_id"]))[0] == 404


async def test_conversations_are_listed_whole_and_in_pages(api: Api, model: FakeOpenAI) -> None:
    model.add(say("Four."))
    names = [await api.new_conversation() for _ in range(3)]
    await api.start_run(names[1], "What is 2 + 2?")
    whole = await api.ended(names[1])
    listed = (await api("GET", "conversations"))[1]
    assert [one["conversation_id"] for one in listed] == names
    assert listed[1] == whole
    page = (await api("GET", "conversations", params={"after": names[0], "limit": "1"}))[1]
    assert page == [whole]
    assert (await api("GET", "conversations", params={"limit": "0"})) == (200, [])
    assert (await api("GET", "conversations", params={"after": "nowhere"}))[0] == 404


async def test_a_run_without_a_kernel_answers_without_tools(api: Api, model: FakeOpenAI) -> None:
    model.add(say("Four."))
    conversation_id = await api.new_conversation()
    run_id = await api.start_run(conversation_id, "What is 2 + 2?")
    view = await api.ended(conversation_id)
    assert [(one["run_id"], one["status"]) for one in view["runs"]] == [(run_id, "complete")]
    assert [(one["role"], one["content"]) for one in view["messages"]] == [
        ("user", "What is 2 + 2?"),
        ("assistant", "Four."),
    ]
    assert not model.requests[0].body.get("tools")


async def test_a_run_asks_its_model_for_the_effort_that_the_script_wants(api: Api, model: FakeOpenAI) -> None:
    model.add(say("Four."), say("Four again."))
    conversation_id = await api.new_conversation()
    body = {"content": "What is 2 + 2?", "effort": "high"}
    assert (await api("POST", "conversations", conversation_id, "runs", body=body))[0] == 201
    (run,) = (await api.ended(conversation_id))["runs"]
    assert run["effort"] == "high"
    assert model.requests[0].body["reasoning_effort"] == "high"
    await api.start_run(conversation_id, "And now?")
    await api.ended(conversation_id)
    assert "reasoning_effort" not in model.requests[1].body


async def test_a_rate_limit_is_in_the_run_and_it_is_tried_now_over_http(api: Api, model: FakeOpenAI) -> None:
    model.add(rate_limited(retry_after="100"), say("Hi"))
    conversation_id = await api.new_conversation()
    run_id = await api.start_run(conversation_id)

    async def delayed() -> Any:
        return (await api("GET", "conversations", conversation_id))[1]["runs"][0]["delay"]

    delay = await look_until(delayed, "the delay")
    assert (delay["kind"], delay["attempt"], delay["tries"]) == ("rate_limited", 2, 4)
    assert (await api("GET", "runs", params={"state": "open"}))[1][0]["delay"] == delay
    status, run = await api("POST", "conversations", conversation_id, "runs", run_id, "try-now")
    assert (status, run["run_id"]) == (200, run_id)
    (ended,) = (await api.ended(conversation_id))["runs"]
    assert (ended["status"], ended["delay"]) == ("complete", None)


UNKNOWN: list[tuple[str, tuple[str, ...], Any]] = [
    ("GET", ("conversations", "nowhere"), None),
    ("GET", ("conversations", "nowhere", "events"), None),
    ("DELETE", ("conversations", "nowhere"), None),
    ("POST", ("conversations", "nowhere", "runs"), {"content": "Hello"}),
    ("POST", ("conversations", "nowhere", "policy"), {"mode": "deny"}),
    ("POST", ("approvals", "nowhere"), {"approved": True}),
    ("POST", ("approvals", "nowhere", "outcome"), {"answer": "continue"}),
    ("POST", ("conversations", "nowhere", "runs", "r", "budget"), {"pause_id": "p", "add": {"steps": 1}}),
    ("POST", ("conversations", "nowhere", "runs", "r", "retry"), None),
    ("POST", ("conversations", "nowhere", "runs", "r", "undo"), None),
    ("POST", ("conversations", "nowhere", "runs", "r", "try-now"), None),
    ("POST", ("conversations", "nowhere", "runs", "r", "cancel"), None),
    ("POST", ("conversations",), {"kernel_id": "nowhere"}),
    ("GET", ("nowhere",), None),
]


async def test_an_unknown_id_is_404_with_a_message(api: Api) -> None:
    for method, path, body in UNKNOWN:
        status, answer = await api(method, *path, body=body)
        assert (status, "nowhere" in answer["message"]) == (404, True), path
    assert (await api("GET", "conversations"))[1] == []


INVALID: list[tuple[tuple[str, ...], Any, str]] = [
    (("approvals", "a"), {"approved": "yes"}, "approved"),
    (("approvals", "a"), {}, "approved"),
    (("approvals", "a"), {"approved": True, "scope": "forever"}, "scope"),
    (("conversations", "c", "policy"), {}, "mode"),
    (("conversations", "c", "policy"), {"mode": "read"}, "mode"),
    (("conversations", "c", "runs"), {"content": ""}, "content"),
    (("conversations", "c", "runs"), {"content": 7}, "content"),
    (("conversations", "c", "runs"), {"content": "Go.", "watched": "yes"}, "watched"),
    (("conversations", "c", "runs"), {"content": "Go.", "effort": "most"}, "effort"),
    (("conversations", "c", "runs", "r", "budget"), {"add": {"steps": 1}}, "pause_id"),
    (("conversations", "c", "runs", "r", "budget"), {"pause_id": "p", "add": {"steps": 0}}, "add.steps"),
    (("approvals", "a", "outcome"), {"answer": "forget"}, "answer"),
    (("conversations",), {"kernel_id": 7}, "kernel_id"),
    (("conversations",), "{not json", "body"),
    (("conversations",), "[]", "body"),
    (("approvals", "a"), '{"approved": false, "approved": true}', "body"),
    (("approvals", "a"), "[" * 100_000, "body"),
]


async def test_a_body_that_does_not_validate_is_400_with_the_field_named(api: Api) -> None:
    for path, body, field in INVALID:
        status, answer = await api("POST", *path, body=body)
        assert (status, answer["field"]) == (400, field), (path, body)
        assert field in answer["message"]


INVALID_QUERIES = [
    *(("conversations", "limit", value) for value in ("many", "-1", "9" * 5_000)),
    *(("runs", "limit", value) for value in ("-1", "9" * 5_000)),
    *(("metrics", "days", value) for value in ("0", "", "many", "3661")),
    *(("runs", "state", "awaiting_approval"), ("runs", "status", "paused")),
    *(("approvals", "state", "running"), ("approvals", "status", "")),
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
async def test_opening_a_notebook_with_a_prompt_imports_what_its_first_run_needs(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[str] = []
    monkeypatch.setattr(service, "import_libraries", lambda: imported.append("once"))
    for name, source in (("plain", "1 + 1"), ("asks", "%%agent\nGo."), ("asks", "")):
        if source:
            cells = [nbformat.v4.new_code_cell(source)]
            nbformat.write(nbformat.v4.new_notebook(cells=cells), server.root / f"{name}.ipynb")
        await server.fetch("api", "contents", f"{name}.ipynb")
    await until(lambda: imported)
    assert imported == ["once"]


class ReadOnly(Authorizer):
    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return action == "read"


class TestAReader:
    @pytest.fixture
    def server_traits(self) -> dict[str, Any]:
        return {"authorizer_class": ReadOnly}

    async def test_may_look_and_nothing_else(self, api: Api) -> None:
        for method, path in ROUTES:
            status, _ = await api(method, *path)
            assert status in ((200, 204, 404) if method == "GET" else (403,)), path


@pytest.mark.usefixtures("fresh")
async def test_kernels_learn_which_server_serves_them(api: Api, server: Server) -> None:
    assert os.environ["AGENT_KERNEL_SERVER_PID"] == str(os.getpid())
    await server.extension.stop_extension()
    assert "AGENT_KERNEL_SERVER_PID" not in os.environ


class TestConfiguration:
    @pytest.fixture
    def extension_traits(self, tmp_path: Path) -> dict[str, Any]:
        return {
            "data_dir": str(tmp_path / "elsewhere"),
            "policy_cap": "ask",
            "default_budget": {"tokens": 1000},
            "result_characters": 500,
        }

    async def test_moves_the_log_and_caps_the_policy(self, api: Api, tmp_path: Path) -> None:
        await api.new_conversation()
        assert (tmp_path / "elsewhere" / "agent-kernel.sqlite").exists()
        assert (await api("GET", "status"))[1]["policy_cap"] == "ask"


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
