"""Agents outside, by the Model Context Protocol: each call of theirs is one of ours."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_core.utils import ensure_async
from jupyter_server.auth import Authorizer, IdentityProvider, User
from mcp import Client, StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp.types import BlobResourceContents, ElicitResult, ImageContent, Implementation, TextResourceContents
from tornado.httpclient import HTTPClientError

from agent_kernel_server.mcp_server import offered as mcp_server
from agent_kernel_server.mcp_server import outside_calls
from tests.security.test_strangers import cookie_of
from tests.server.client import Api, OpenChannel
from tests.server.mcp_client import *  # noqa: F403 -- its fixture, which pytest finds by its name
from tests.server.mcp_client import connected, decided, handle_in, text_of
from tests.server.serving import TOKEN, Server
from tests.waiting import until

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_of_either_age_sees_the_tools_and_reads_a_notebook(server: Server, path: str, mode: str) -> None:
    async with connected(server, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "notebook_path" in tools["run_python"].input_schema["properties"]
        listed = json.loads(text_of(await client.call_tool("list_notebooks", {})))
        assert {"notebook_path": path} in listed["notebooks"]
        read = await client.call_tool("read_notebook", {"notebook_path": path})
        assert not read.is_error
        assert "price = 3" in text_of(read)
    assert server.app.kernel_manager.list_kernel_ids() == ([server._kernel.kernel_id] if server._kernel else [])


async def test_a_call_of_a_client_is_a_card_that_a_person_approves_and_is_in_the_audit_trail(
    server: Server, api: Api, path: str
) -> None:
    before = max((entry["number"] for entry in await api.get("audit")), default=0)
    async with connected(server) as client:
        asked = asyncio.create_task(client.call_tool("run_python", {"notebook_path": path, "code": "6 * 7"}))
        call = await api.next_approval()
        assert (call["tool_name"], json.loads(call["tool_input"])) == ("run_python", {"code": "6 * 7"})
        assert (call["client"], call["notebook"]) == ("Claude Code", path)
        assert call["prompt"].startswith("Claude Code asks")
        await api.decide(call)
        done = await asked
    assert (text_of(done), done.is_error) == ("42", False)
    [run] = await api.get("runs", notebook=path)
    assert (run["client"], run["status"], run["usage"]["total_tokens"]) == ("Claude Code", "complete", 0)
    assert run["kernel_id"] in server.app.kernel_manager.list_kernel_ids()
    assert (await api.get("usage"))["totals"]["turns"] == 0
    entries = [(one["kind"], one["client"], one.get("by")) for one in await api.get("audit", after=str(before))]
    assert entries == [("outcome", "Claude Code", None), ("decision", "Claude Code", "user")]
    assert (await api("GET", "audit", params={"after": "x"}))[0] == 400


ASKS: dict[str, dict[str, Any]] = {
    "run_python": {"code": "price = 3"},
    "list_files": {},
    "search_files": {"query": "needle"},
    "read_file": {"path": "a.txt"},
    "edit_file": {"path": "a.txt", "old_text": "needle", "new_text": "thread"},
    "write_file": {"path": "b.txt", "content": "b"},
    "insert_cell": {"source": "1", "after": "two"},
    "edit_cell": {"cell_id": "one", "source": "price = 4"},
    "run_cell": {"cell_id": "one"},
    "move_cell": {"cell_id": "two", "after": None},
    "delete_cell": {"cell_id": "two"},
}


async def test_all_tools_but_those_that_look_ask_and_do_what_they_say(server: Server, api: Api, path: str) -> None:
    (server.root / "a.txt").write_text("a needle")
    here = {"notebook_path": path}
    async with connected(server) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == {*ASKS, "list_notebooks", "read_notebook", "inspect_variables", "wait_for_call"}
        said = {}
        assert (await client.call_tool("edit_cell", here | ASKS["edit_cell"])).is_error, "it has not read it"
        for name, arguments in ASKS.items():
            await client.call_tool("read_notebook", here)
            done = await decided(api, client, name, here | arguments)
            said[name] = text_of(done)
            assert not done.is_error, said[name]
        assert "price" in text_of(await client.call_tool("inspect_variables", here))
        assert await api.pending() == []
    assert ("a.txt" in said["list_files"], "a needle" in said["read_file"]) == (True, True)
    assert [(server.root / name).read_text() for name in ("a.txt", "b.txt")] == ["a thread", "b"]
    cells = nbformat.read(server.root / path, 4).cells
    assert [cell.source for cell in cells] == ["price = 4", "1"]


async def test_a_denial_says_why_and_an_edit_says_what_ran(server: Server, api: Api, path: str) -> None:
    fails = {"notebook_path": path, "code": "1 / 0"}
    async with connected(server) as client:
        for decision, said, is_error in (
            ({"approved": False, "reason": "Not on a Friday."}, ["Not on a Friday.", "Nothing ran."], True),
            ({"edited_input": '{"code":"print(8 / 4)"}'}, ['What ran: {"code":"print(8 / 4)"}', "2.0"], False),
            ({}, ["ZeroDivisionError: division by zero"], True),
        ):
            done = await decided(api, client, "run_python", fails, **decision)
            assert (done.is_error, [words for words in said if words not in text_of(done)]) == (is_error, [])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_is_never_asked_and_can_not_approve_its_own_call(
    server: Server, api: Api, path: str, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Elicitation would have the program answer in the person's place."""
    monkeypatch.setattr(mcp_server, "WAIT_SECONDS", 0.2)
    asked: list[Any] = []

    async def says_yes(_: Any, params: Any) -> ElicitResult:
        asked.append(params)
        return ElicitResult(action="accept", content={"approved": True})

    code = {"notebook_path": path, "code": "6 * 7"}
    async with connected(server, mode=mode, elicitation_callback=says_yes) as client:
        handle = handle_in(await client.call_tool("run_python", code))
        claims = await client.call_tool("wait_for_call", {"handle": handle, "approved": True})
        assert handle_in(claims) == handle, "it waits as before"
        assert (await client.call_tool("run_python", code | {"approved": True})).is_error
        [waiting] = await api.pending()
        await api.decide(waiting, approved=False, reason="No.")
        assert "No." in text_of(await client.call_tool("wait_for_call", {"handle": handle}))
    assert asked == []


async def test_a_call_that_waits_gives_a_handle_and_a_repeat_finds_it_until_its_result_is_delivered(
    server: Server, api: Api, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_server, "WAIT_SECONDS", 0.2)
    arguments = {"notebook_path": path, "code": "calls = globals().get('calls', 0) + 1; print('calls:', calls)"}
    async with connected(server) as client:
        first = await client.call_tool("run_python", arguments)
        assert not first.is_error
        assert "wait_for_call" in text_of(first)
        handle = handle_in(first)
        assert handle_in(await client.call_tool("wait_for_call", {"handle": handle})) == handle
        again = await client.call_tool("run_python", arguments)
        assert handle_in(again) == handle
        assert "was not started again" in text_of(again)
        other = await client.call_tool("run_python", arguments | {"code": "2"})
        assert handle_in(other) != handle
        [call, beside] = await api.all_waiting(2)  # neither waits for the other
        await api.decide(beside, approved=False)
        await api.decide(call)
    monkeypatch.undo()
    async with connected(server) as client:  # which has lost the answer
        found = await client.call_tool("run_python", arguments)
        assert "was not run again" in text_of(found)
        assert "calls: 1" in text_of(found)
        later = await client.call_tool("wait_for_call", {"handle": handle})
        assert text_of(later) == "calls: 1"
        assert "calls: 2" in text_of(await decided(api, client, "run_python", arguments))
    async with connected(server, "Another") as client:
        strange = await client.call_tool("wait_for_call", {"handle": handle})
        assert strange.is_error
        assert "You have no call" in text_of(strange)


async def test_a_request_that_is_closed_cancels_nothing(
    server: Server, api: Api, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_server, "PROGRESS_SECONDS", 0.02)
    arguments = {"notebook_path": path, "code": "'kept'"}
    for mode in ("auto", "legacy"):
        async with connected(server, mode, mode=mode) as client:
            asked = asyncio.create_task(client.call_tool("run_python", arguments))
            call = await api.next_approval()
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        assert [one["approval_id"] for one in await api.pending()] == [call["approval_id"]]
        async with connected(server, mode, mode=mode) as client:
            asked = asyncio.create_task(client.call_tool("run_python", arguments))
            await api.decide(call)
            assert "'kept'" in text_of(await asked)


async def test_bad_arguments_are_told_to_the_client_and_ask_nobody(server: Server, api: Api, path: str) -> None:
    async with connected(server) as client:
        for arguments, said in (
            ({"code": "1"}, "notebook_path is missing"),
            ({"kernel_id": "none", "code": "1"}, "There is no kernel 'none'"),
            ({"notebook_path": path, "code": 1}, "code: 1 is not of type 'string'"),
        ):
            result = await client.call_tool("run_python", arguments)
            assert (result.is_error, said in text_of(result)) == (True, True), said
    assert await api.pending() == []


async def test_nobody_is_served_without_the_token_or_by_a_page_in_a_logged_in_browser(server: Server) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    browser = {"Authorization": "", "Cookie": await cookie_of(server)}
    evil = {"Origin": "https://evil.example"}
    for refused in ({"Authorization": ""}, {"Authorization": "token wrong"}, browser, browser | evil):
        with pytest.raises(HTTPClientError) as error:
            await server.fetch("agent-kernel", "mcp", method="POST", body=body, headers=headers | refused)
        assert error.value.code in (403, 404)


async def test_a_person_allows_a_client_in_one_notebook_and_sends_it_away(
    server: Server, api: Api, path: str, client: OpenChannel
) -> None:
    nbformat.write(nbformat.v4.new_notebook(), server.root / "other.ipynb")
    here = {"notebook_path": path}
    async with connected(server) as agent:
        await decided(api, agent, "run_python", {**here, "code": "a = 1"}, scope="conversation")
        assert text_of(await agent.call_tool("run_python", {**here, "code": "2"})) == "2"
        there = {"notebook_path": "other.ipynb", "code": "'a' in globals()"}
        assert text_of(await decided(api, agent, "run_python", there)) == "False", "each notebook has its own kernel"
        async with connected(server, "Another") as another:
            assert (await decided(api, another, "run_python", {**here, "code": "4"}, approved=False)).is_error
        found = await api.get("clients", notebook=path)
        assert [(one["client"], [rule["text"] for rule in one["rules"]]) for one in found] == [
            ("Claude Code", ["allow run_python"]),
            ("Another", []),
        ]
        asked = asyncio.create_task(agent.call_tool("insert_cell", {**here, "source": "5"}))
        await api.next_approval()
        conversation = await client(found[0]["client_id"])
        await conversation.until("session")
        await conversation.send({"type": "send_away"})
        stopped = await asked
        assert stopped.is_error
        assert "The user has sent this client away." in text_of(stopped)
        for name, more in (("run_python", {"code": "6"}), ("read_notebook", {}), ("inspect_variables", {})):
            refused = await agent.call_tool(name, here | more)
            assert refused.is_error
            assert "Nothing ran." in text_of(refused)
        [away, _] = await api.get("clients", notebook=path)
        assert away["sent_away"]
        assert (await api("DELETE", "rules", away["rules"][0]["rule_id"]))[0] == 204
        assert not (await agent.call_tool("read_notebook", here)).is_error
    assert (await api("DELETE", "clients", away["client_id"]))[0] == 204
    assert (await api("DELETE", "clients", "none"))[0] == 404


async def test_a_program_that_starts_programs_is_led_to_the_server(server: Server, api: Api, path: str) -> None:
    address = server.url("http", (), None).rstrip("?")
    program = StdioServerParameters(
        command=str(Path(sys.executable).with_name("agent-kernel")),
        args=["mcp", "--server", address],
        env={"JUPYTER_TOKEN": TOKEN, "HOME": str(server.root)},
    )
    async with Client(stdio_client(program), client_info=Implementation(name="Codex", version="1")) as client:
        assert "run_python" in {tool.name for tool in (await client.list_tools()).tools}
        asked = asyncio.create_task(client.call_tool("run_python", {"notebook_path": path, "code": "6 * 7"}))
        call = await api.next_approval()
        assert call["client"] == "Codex"
        await api.decide(call)
        assert text_of(await asked) == "42"


async def test_a_client_that_floods_is_told_to_wait_and_its_name_hides_nothing(
    server: Server, api: Api, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside_calls, "MOST_OPEN", 2)
    monkeypatch.setattr(mcp_server, "WAIT_SECONDS", 0.1)
    async with connected(server, f"Claude\u202e  Code\n{'x' * 500}") as client:
        answers = [
            await client.call_tool("run_python", {"notebook_path": path, "code": str(number)}) for number in range(3)
        ]
        assert [answer.is_error for answer in answers] == [False, False, True]
        assert "Wait for some of them first." in text_of(answers[2])
    [call, _] = await api.all_waiting(2)
    assert call["client"] == f"ClaudeU+202E Code {'x' * 60}"[:60]


PLOT = """
from base64 import b64decode
from IPython.display import Image, display
display(Image(b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")))
print("a line of the output\\n" * 3000)
"""


async def test_pictures_come_as_pictures_and_long_texts_in_pages(server: Server, api: Api, path: str) -> None:
    async with connected(server) as client:
        done = await decided(api, client, "run_python", {"notebook_path": path, "code": PLOT})
        assert [block.mime_type for block in done.content if isinstance(block, ImageContent)] == ["image/png"]
        first = text_of(done)
        assert len(first.encode()) <= 25_000
        found = re.search(r'\[Page 1 of (\d+)\. Next: wait_for_call with \{"handle": "(\w+)", "page": 2\}\]', first)
        assert found is not None, first[-300:]
        pages, handle = int(found[1]), found[2]
        texts = [first]
        for page in range(2, pages + 1):
            texts.append(text_of(await client.call_tool("wait_for_call", {"handle": handle, "page": page})))
            assert len(texts[-1].encode()) <= 25_000
        assert sum(text.count("a line of the output\n") for text in texts) == 3000
        beyond = await client.call_tool("wait_for_call", {"handle": handle, "page": 99})
        assert "There is no page 99" in text_of(beyond)
        outputs = (await client.read_resource(f"agent-kernel://calls/{handle}")).contents
        assert [type(one) for one in outputs] == [TextResourceContents, BlobResourceContents]
        listed = [one.uri for one in (await client.list_resources()).resources]
        assert listed == [f"agent-kernel://notebooks/{path}"]
        [notebook] = (await client.read_resource(listed[0])).contents
        assert isinstance(notebook, TextResourceContents)
        assert "# Sales" in notebook.text
        with pytest.raises(MCPError, match="There is no resource"):
            await client.read_resource("file:///etc/passwd")


class MayLook(Authorizer):
    looks = "read"

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return action == MayLook.looks


class TestWhoMayOnlyLook:
    @pytest.fixture
    def server_traits(self) -> dict[str, Any]:
        return {"authorizer_class": MayLook}

    async def test_lists_notebooks_and_runs_nothing(self, server: Server, path: str) -> None:
        async with connected(server) as client:
            assert path in text_of(await client.call_tool("list_notebooks", {}))
            for name in ("read_notebook", "run_python", "wait_for_call"):
                refused = await client.call_tool(name, {"notebook_path": path, "code": "1", "handle": "run"})
                assert "may look, but not run anything" in text_of(refused)
            with pytest.raises(MCPError, match="may not read notebooks"):
                await client.read_resource(f"agent-kernel://notebooks/{path}")


async def restart(server: Server) -> None:
    """As a server that has gone, and one that comes in its place."""
    await (await server.service.runtime()).aclose()
    server.service._runtime = None


WAITS = """
import pathlib, time
pathlib.Path("begun").touch()
while not pathlib.Path("go-on").exists():
    time.sleep(0.01)
"""


async def test_after_a_restart_a_call_waits_on_and_what_became_of_one_that_ran_is_unknown(
    server: Server, api: Api, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_server, "WAIT_SECONDS", 0.2)
    waits, runs = ({"notebook_path": path, "code": code} for code in ("6 * 7", WAITS))
    async with connected(server) as client:
        running = handle_in(await client.call_tool("run_python", runs))
        await api.decide()
        await until((server.root / "begun").exists)
        waiting = handle_in(await client.call_tool("run_python", waits))
    await restart(server)
    monkeypatch.undo()
    async with connected(server) as client:
        lost = await client.call_tool("wait_for_call", {"handle": running})
        assert lost.is_error
        assert text_of(lost).startswith("Outcome unknown")
        asked = asyncio.create_task(client.call_tool("run_python", waits))
        [call] = await api.all_waiting(1)
        assert call["run_id"] == waiting
        (server.root / "go-on").touch()
        await api.decide(call)
        said = text_of(await asked)
        assert (said.startswith("You have sent this call before"), said.endswith("\n42")) == (True, True)


class ByHeader(IdentityProvider):
    """Several people with a server's token."""

    async def get_user(self, handler: Any) -> User | None:
        known = await ensure_async(super().get_user(handler))
        return User(handler.request.headers.get("X-User", "ana")) if known is not None else None


class TestTwoUsers:
    @pytest.fixture
    def server_traits(self) -> dict[str, Any]:
        return {"identity_provider_class": ByHeader}

    async def test_who_name_their_programs_alike_are_two_clients(
        self, server: Server, api: Api, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mcp_server, "WAIT_SECONDS", 0.2)
        arguments = {"notebook_path": path, "code": "1"}
        handles = {}
        for name in ("ana", "ben"):
            async with connected(server, headers={**server.headers, "X-User": name}) as client:
                handles[name] = handle_in(await client.call_tool("run_python", arguments))
                refused = await client.call_tool("wait_for_call", {"handle": handles["ana"]})
                assert refused.is_error is (name == "ben")
        assert [call["run_id"] for call in await api.pending()] == list(handles.values())
        for call in await api.pending():
            await api.decide(call, approved=False)
        outcomes = [one for one in (await api.get("audit"))[:4] if one["kind"] == "decision"]
        assert {one["asked_by"] for one in outcomes} == {"ana", "ben"}


@pytest.mark.usefixtures("fresh")
async def test_a_server_that_stops_says_so_to_its_clients(server: Server, api: Api, path: str) -> None:
    async with connected(server, mode="legacy") as client:
        asked = asyncio.create_task(client.call_tool("run_python", {"notebook_path": path, "code": "1"}))
        await api.next_approval()
        [one] = await api.get("clients")
        leaving = asyncio.create_task(api("DELETE", "clients", one["client_id"]))
        await server.extension.stop_extension()
        assert (await leaving)[0] in (204, 503)
        await asyncio.gather(asked, return_exceptions=True)
        for method, *way in (("DELETE", "mcp"), ("DELETE", "api", "clients", "x"), ("GET", "api", "status")):
            with pytest.raises(HTTPClientError) as error:
                await server.fetch("agent-kernel", *way, method=method)
            assert error.value.code == 503
