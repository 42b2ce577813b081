"""Agents outside, by the Model Context Protocol: each call of theirs is one of ours."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import nbformat
import pytest
from jupyter_server.auth import Authorizer
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    ImageContent,
    Implementation,
    TextContent,
    TextResourceContents,
)
from tornado.httpclient import HTTPClientError

from agent_kernel_server import identity
from agent_kernel_server.mcp_server import calls as client_calls
from agent_kernel_server.mcp_server import server as mcp_server
from tests.server.cells import OpenPage
from tests.server.client import Api, OpenChannel, service_of
from tests.server.serving import TOKEN, Server
from tests.waiting import until

pytestmark = pytest.mark.kernel


@asynccontextmanager
async def connected(
    server: Server, name: str = "Claude Code", *, mode: Any = "auto", headers: dict[str, str] | None = None
) -> AsyncIterator[Client]:
    url = server.url("http", ("agent-kernel", "mcp"), None).rstrip("?")
    async with create_mcp_http_client(headers=headers or server.headers) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, client_info=Implementation(name=name, version="1"), mode=mode) as client:
            yield client


@pytest.fixture
def client_of_page(client: OpenChannel) -> OpenChannel:
    return client


@pytest.fixture
def path(server: Server) -> str:
    """A notebook that no page has open, and that has no kernel."""
    cells = [nbformat.v4.new_code_cell("price = 3", id="one"), nbformat.v4.new_markdown_cell("# Sales", id="two")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), server.root / "sales.ipynb")
    return "sales.ipynb"


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def handle_in(result: CallToolResult) -> str:
    [line] = [line for line in text_of(result).splitlines() if line.startswith("handle: ")]
    return line.removeprefix("handle: ")


async def all_waiting(api: Api, count: int) -> list[Any]:
    """The calls that wait for a decision, once there are so many."""
    async with asyncio.timeout(60):
        while True:
            if len(calls := await api.pending()) == count:
                return calls
            await asyncio.sleep(0.02)


async def decide(api: Api, call: Any, **decision: Any) -> None:
    status, body = await api("POST", "approvals", call["approval_id"], body={"digest": call["digest"], **decision})
    assert status == 200, body


async def decided(api: Api, client: Client, name: str, arguments: dict[str, Any], **decision: Any) -> CallToolResult:
    """The result of a call, about which a person has decided."""
    asked = asyncio.create_task(client.call_tool(name, arguments))
    await decide(api, await api.next_approval(), **decision)
    return await asked


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_of_either_age_sees_the_tools_and_reads_a_notebook(server: Server, path: str, mode: str) -> None:
    async with connected(server, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"list_notebooks", "run_python", "edit_cell", "read_file", "wait_for_call"} <= tools.keys()
        assert "run_shell" not in tools
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
    before = max((entry["number"] for entry in (await api("GET", "audit"))[1]), default=0)
    async with connected(server) as client:
        asked = asyncio.create_task(client.call_tool("run_python", {"notebook_path": path, "code": "6 * 7"}))
        call = await api.next_approval()
        assert (call["tool_name"], json.loads(call["tool_input"])) == ("run_python", {"code": "6 * 7"})
        assert (call["client"], call["notebook"]) == ("Claude Code", path)
        assert call["prompt"].startswith("Claude Code asks")
        await api("POST", "approvals", call["approval_id"], body={"approved": True, "digest": call["digest"]})
        done = await asked
    assert (text_of(done), done.is_error) == ("42", False)
    [run] = (await api("GET", "runs", params={"notebook": path}))[1]
    assert (run["client"], run["status"], run["usage"]["total_tokens"]) == ("Claude Code", "complete", 0)
    assert run["kernel_id"] in server.app.kernel_manager.list_kernel_ids()
    assert (await api("GET", "usage"))[1]["totals"]["turns"] == 0
    status, entries = await api("GET", "audit", params={"after": str(before)})
    assert [(one["kind"], one["client"]) for one in entries] == [
        (kind, "Claude Code") for kind in ("outcome", "decision")
    ]
    assert (status, entries[1]["by"]) == (200, "user")
    assert (await api("GET", "audit", params={"after": "x"}))[0] == 400


async def test_a_denial_says_why_and_an_edit_says_what_ran(server: Server, api: Api, path: str) -> None:
    async with connected(server) as client:
        denied = await decided(
            api,
            client,
            "run_python",
            {"notebook_path": path, "code": "1 / 0"},
            approved=False,
            reason="Not on a Friday.",
        )
        assert denied.is_error
        assert "Not on a Friday." in text_of(denied)
        assert "Nothing ran." in text_of(denied)
        edited = await decided(
            api,
            client,
            "run_python",
            {"notebook_path": path, "code": "1 / 0"},
            approved=True,
            edited_input=json.dumps({"code": "print(8 / 4)"}),
        )
        assert not edited.is_error
        assert 'What ran: {"code":"print(8 / 4)"}' in text_of(edited)
        assert "2.0" in text_of(edited)
        raised = await decided(api, client, "run_python", {"notebook_path": path, "code": "1 / 0"}, approved=True)
        assert raised.is_error
        assert "ZeroDivisionError: division by zero" in text_of(raised)


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
        [call, beside] = await api.pending()  # neither waits for the other
        await decide(api, beside, approved=False)
        await decide(api, call, approved=True)
    monkeypatch.undo()
    async with connected(server) as client:  # which has lost the answer
        found = await client.call_tool("run_python", arguments)
        assert "was not run again" in text_of(found)
        assert "calls: 1" in text_of(found)
        later = await client.call_tool("wait_for_call", {"handle": handle})
        assert text_of(later) == "calls: 1"
        assert "calls: 2" in text_of(await decided(api, client, "run_python", arguments, approved=True))
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
            await decide(api, call, approved=True)
            assert "'kept'" in text_of(await asked)


async def test_two_clients_and_two_notebooks_are_never_mixed_up(server: Server, api: Api, path: str) -> None:
    nbformat.write(nbformat.v4.new_notebook(), server.root / "other.ipynb")
    async with connected(server, "A") as one, connected(server, "B") as two:
        wanted = ((one, path, "A"), (two, "other.ipynb", "B"), (two, path, "B in A"))
        asked = [
            asyncio.create_task(client.call_tool("run_python", {"notebook_path": at, "code": f"name = {name!r}; name"}))
            for client, at, name in wanted
        ]
        calls = await all_waiting(api, 3)
        found = {(call["client"], call["notebook"]) for call in calls}
        assert found == {("A", path), ("B", "other.ipynb"), ("B", path)}
        for call in calls:
            await decide(api, call, approved=True)
        assert [text_of(result) for result in await asyncio.gather(*asked)] == ["'A'", "'B'", "'B in A'"]
        where = await two.call_tool("inspect_variables", {"notebook_path": "other.ipynb", "names": ["name"]})
        assert "'B'" in text_of(where)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("run_python", {"code": "1"}, "notebook_path is missing"),
        ("run_python", {"notebook_path": "none.ipynb", "code": "1"}, "There is no notebook 'none.ipynb'"),
        ("run_python", {"notebook_path": "../../etc/passwd", "code": "1"}, "There is no notebook"),
        ("run_python", {"kernel_id": "none", "code": "1"}, "There is no kernel 'none'"),
        ("run_python", {"notebook_path": "sales.ipynb", "text": "1"}, "code is missing"),
        ("run_python", {"notebook_path": "sales.ipynb", "code": 1}, "code must be string, not integer"),
        ("run_shell", {"notebook_path": "sales.ipynb", "command": "ls"}, "There is no tool 'run_shell'"),
        ("wait_for_call", {"handle": "none"}, "You have no call with the handle 'none'"),
        ("wait_for_call", {}, "handle is the text"),
    ],
)
async def test_bad_arguments_are_told_to_the_client_and_ask_nobody(
    server: Server, api: Api, path: str, name: str, arguments: dict[str, Any], said: str
) -> None:
    async with connected(server) as client:
        result = await client.call_tool(name, arguments)
    assert result.is_error
    assert said in text_of(result)
    assert await api.pending() == []


async def test_nobody_is_served_without_the_token_or_from_another_origin(server: Server) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for refused in ({"Authorization": ""}, {"Authorization": "token wrong"}, {"Origin": "http://evil.example"}):
        if "Origin" in refused:  # a browser that is logged in, without a token
            refused |= {"Authorization": ""}
        with pytest.raises(HTTPClientError) as error:
            await server.fetch("agent-kernel", "mcp", method="POST", body=body, headers=headers | refused)
        assert error.value.code in (403, 404)


async def test_a_person_allows_a_client_in_one_notebook_and_sends_it_away(
    server: Server, api: Api, path: str, client_of_page: OpenChannel
) -> None:
    nbformat.write(nbformat.v4.new_notebook(), server.root / "other.ipynb")
    here = {"notebook_path": path}
    async with connected(server) as client:
        await decided(api, client, "run_python", {**here, "code": "1"}, approved=True, scope="conversation")
        assert text_of(await client.call_tool("run_python", {**here, "code": "2"})) == "2"
        elsewhere = asyncio.create_task(client.call_tool("run_python", {"notebook_path": "other.ipynb", "code": "3"}))
        async with connected(server, "Another") as another:
            waits = asyncio.create_task(another.call_tool("run_python", {**here, "code": "4"}))
            for call in await all_waiting(api, 2):
                await decide(api, call, approved=False)
            assert [(await one).is_error for one in (elsewhere, waits)] == [True, True]
        found = (await api("GET", "clients", params={"notebook": path}))[1]
        assert [(one["client"], [rule["text"] for rule in one["rules"]]) for one in found] == [
            ("Claude Code", ["allow run_python"]),
            ("Another", []),
        ]
        asked = asyncio.create_task(client.call_tool("insert_cell", {**here, "source": "5"}))
        await api.next_approval()
        conversation = await client_of_page(found[0]["client_id"])
        await conversation.until("session")
        await conversation.send({"type": "send_away"})
        stopped = await asked
        assert stopped.is_error
        assert "The user has sent this client away." in text_of(stopped)
        for name, more in (("run_python", {"code": "6"}), ("read_notebook", {}), ("inspect_variables", {})):
            refused = await client.call_tool(name, here | more)
            assert refused.is_error
            assert "Nothing ran." in text_of(refused)
        [away, _] = (await api("GET", "clients", params={"notebook": path}))[1]
        assert away["sent_away"]
        assert (await api("DELETE", "rules", away["rules"][0]["rule_id"]))[0] == 204
        assert not (await client.call_tool("read_notebook", here)).is_error
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
        await decide(api, call, approved=True)
        assert text_of(await asked) == "42"


async def test_a_client_that_floods_is_told_to_wait_and_its_name_hides_nothing(
    server: Server, api: Api, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_calls, "MOST_OPEN", 2)
    monkeypatch.setattr(mcp_server, "WAIT_SECONDS", 0.1)
    async with connected(server, f"Claude\u202e  Code\n{'x' * 500}") as client:
        answers = [
            await client.call_tool("run_python", {"notebook_path": path, "code": str(number)}) for number in range(3)
        ]
        assert [answer.is_error for answer in answers] == [False, False, True]
        assert "Wait for some of them first." in text_of(answers[2])
    [call, _] = await api.pending()
    assert call["client"] == f"ClaudeU+202E Code {'x' * 60}"[:60]


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

    async def test_and_then_not_any_more_is_refused_where_a_stream_has_sent_nothing(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(identity, "ASK_SECONDS", 0.02)
        service = service_of(server.extension)
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        begin = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        begun = await server.fetch("agent-kernel", "mcp", method="POST", headers=headers, body=begin)
        await until(lambda: not service.streams)
        stream = server.fetch(
            "agent-kernel", "mcp", headers={**headers, "Mcp-Session-Id": begun.headers["Mcp-Session-Id"]}
        )
        await until(lambda: service.streams)
        monkeypatch.setattr(MayLook, "looks", "nothing")
        with pytest.raises(HTTPClientError) as error:
            await stream
        assert error.value.code == 403


async def test_an_open_page_is_told_of_a_call_and_shows_what_is_read(
    server: Server, api: Api, path: str, open_page: Callable[..., Awaitable[OpenPage]]
) -> None:
    page = await open_page(path)
    async with connected(server) as client:
        reading = asyncio.create_task(client.call_tool("read_notebook", {"notebook_path": path}))
        assert await page.asked() == {"type": "runs"}
        await page.shows("price = 'unsaved'")
        assert "price = 'unsaved'" in text_of(await reading)


PLOT = """
from base64 import b64decode
from IPython.display import Image, display
display(Image(b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")))
print("a line of the output\\n" * 3000)
"""


async def test_pictures_come_as_pictures_and_long_texts_in_pages(server: Server, api: Api, path: str) -> None:
    async with connected(server) as client:
        done = await decided(api, client, "run_python", {"notebook_path": path, "code": PLOT}, approved=True)
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


async def test_a_cell_is_changed_only_as_the_client_has_read_it(server: Server, api: Api, path: str) -> None:
    here = {"notebook_path": path}
    async with connected(server) as client:
        unread = await client.call_tool("edit_cell", {**here, "cell_id": "one", "source": "price = 4"})
        assert unread.is_error
        await client.call_tool("read_notebook", here)
        assert not (
            await decided(api, client, "edit_cell", {**here, "cell_id": "one", "source": "price = 4"}, approved=True)
        ).is_error
    assert nbformat.read(server.root / path, 4).cells[0].source == "price = 4"


@pytest.mark.parametrize("kernel_lives", [True, False])
async def test_what_a_client_changed_is_undone_after_a_restart_or_said_to_be_lost(
    server: Server, api: Api, path: str, kernel_lives: bool
) -> None:
    (server.root / "a.txt").write_text("old")
    async with connected(server) as client:
        arguments = {"notebook_path": path, "path": "a.txt", "content": "new"}
        asked = asyncio.create_task(client.call_tool("write_file", arguments))
        call = await api.next_approval()
        await decide(api, call, approved=True)
        assert not (await asked).is_error
    service = service_of(server.extension)
    await (await service.runtime()).aclose()  # as a server that has gone, and one that comes in its place
    service._runtime = None
    if not kernel_lives:
        await server.app.kernel_manager.shutdown_all(now=True)
    status, answer = await api("POST", "approvals", call["approval_id"], "undo")
    assert (status, (server.root / "a.txt").read_text()) == ((200, "old") if kernel_lives else (409, "new")), answer
    assert kernel_lives or "is gone, and what was there before went with it" in answer["message"]
    assert len(server.app.kernel_manager.list_kernel_ids()) == kernel_lives  # none is started for it


@pytest.mark.usefixtures("fresh")
async def test_a_server_that_stops_says_so_to_its_clients(server: Server, api: Api, path: str) -> None:
    async with connected(server, mode="legacy") as client:
        asked = asyncio.create_task(client.call_tool("run_python", {"notebook_path": path, "code": "1"}))
        await api.next_approval()
        [one] = (await api("GET", "clients"))[1]
        leaving = asyncio.create_task(api("DELETE", "clients", one["client_id"]))
        await server.extension.stop_extension()
        assert (await leaving)[0] in (204, 503)
        await asyncio.gather(asked, return_exceptions=True)
        for method, *way in (
            ("DELETE", "mcp"),
            ("DELETE", "api", "clients", one["client_id"]),
            ("GET", "api", "status"),
        ):
            with pytest.raises(HTTPClientError) as error:
                await server.fetch("agent-kernel", *way, method=method)
            assert error.value.code == 503


class Sessions:
    """Those of the package, which begin or end in trouble."""

    def __init__(self, begin: Callable[[], None], end: Callable[[], Awaitable[None]]) -> None:
        self._begin, self._end = begin, end

    async def handle_request(self, *_: Any) -> None:
        raise RuntimeError("Task group is not initialized.")

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        self._begin()
        try:
            yield
        finally:
            await self._end()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_request_that_meets_the_end_of_the_server_leaves_no_traceback(
    server: Server, api: Api, path: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(server, mode=mode) as client:
        asked = [
            asyncio.create_task(client.call_tool("run_python", {"notebook_path": path, "code": str(number)}))
            for number in range(5)
        ]
        await all_waiting(api, len(asked))
        await server.extension.stop_extension()
        await asyncio.gather(*asked, return_exceptions=True)
    assert [one.getMessage() for one in caplog.records if one.exc_info] == []


class Slow(Authorizer):
    """Permits all, but whether something may run it says when it is let."""

    asked: ClassVar[asyncio.Event]
    says: ClassVar[asyncio.Event]

    async def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        if action == "execute" and resource == identity.AUTH_RESOURCE:
            Slow.asked.set()
            await Slow.says.wait()
        return True


class TestWhoIsAuthorizedTooLate:
    @pytest.fixture
    def server_traits(self) -> dict[str, Any]:
        Slow.asked, Slow.says = asyncio.Event(), asyncio.Event()
        return {"authorizer_class": Slow}

    @pytest.mark.usefixtures("fresh")
    async def test_is_told_to_ask_again_and_leaves_no_traceback(
        self, server: Server, caplog: pytest.LogCaptureFixture
    ) -> None:
        over = asyncio.Event()

        async def lingers() -> None:
            """As any task of the extension's that takes its time to end."""
            try:
                await asyncio.Event().wait()
            finally:
                await over.wait()

        service = service_of(server.extension)
        service.tasks.spawn(lingers(), "one that lingers")
        request = server.fetch("agent-kernel", "mcp", method="DELETE")
        await Slow.asked.wait()
        stopping = asyncio.create_task(server.extension.stop_extension())
        await until(lambda: service.client_calls.closed)
        Slow.says.set()
        with pytest.raises(HTTPClientError) as error:
            await request
        over.set()
        await stopping
        assert error.value.code == 503
        assert [one.getMessage() for one in caplog.records if one.exc_info] == []


@pytest.mark.usefixtures("fresh")
async def test_a_request_is_told_to_ask_again_where_the_sessions_fail_or_end(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending, over = asyncio.Event(), asyncio.Event()

    async def end() -> None:
        ending.set()
        await over.wait()

    async def status() -> int:
        with pytest.raises(HTTPClientError) as error:
            await server.fetch("agent-kernel", "mcp", method="DELETE")
        return error.value.code

    calls, tasks = service_of(server.extension).client_calls, service_of(server.extension).tasks
    monkeypatch.setattr(mcp_server, "make_sessions", lambda *_: Sessions(lambda: 1 / 0, end))
    assert await status() == 503
    ending.clear()
    monkeypatch.setattr(mcp_server, "make_sessions", lambda *_: Sessions(lambda: None, end))
    await calls.app()
    stopping = asyncio.create_task(tasks.aclose())
    await ending.wait()
    assert await status() == 503
    over.set()
    await stopping
