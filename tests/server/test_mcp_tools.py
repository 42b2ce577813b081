"""MCP servers of others: which there are, how they are reached and shown, and runs that call their tools. Most are a
server in Python with the official package."""

import asyncio
import hashlib
import json
import logging
import os
import signal
import stat
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import mcp_types as types
import pytest
from tornado.httpclient import AsyncHTTPClient

from agent_kernel.protocol.views import OutputView
from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel_server.mcp_tools import call_results, launcher, servers
from agent_kernel_server.mcp_tools import tool_server as mcp_server
from agent_kernel_server.mcp_tools.call_results import outcome_of
from agent_kernel_server.mcp_tools.configuration import ServerConfig
from agent_kernel_server.mcp_tools.tool_server import MOST_TOOLS, McpServer
from tests.ports import free_port
from tests.server.client import Api, Kernel
from tests.server.serving import Server
from tests.waiting import look_until, until

PEER = str(Path(__file__).with_name("mcp_peer.py"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("peer")


@pytest.fixture
def extension_traits(folder: Path) -> dict[str, Any]:
    peers = {name: {"command": sys.executable, "args": [PEER, name, str(folder)]} for name in ("modern", "legacy")}
    return {"mcp_servers": peers}


@pytest.fixture
def own_file(server: Server) -> Iterator[Callable[..., None]]:
    """Names the user's own servers."""
    file = Path(server.app.config_dir) / "mcp.json"

    def write(**servers: Any) -> None:
        file.write_text(json.dumps({"mcpServers": servers}))

    yield write
    file.unlink(missing_ok=True)


async def ready(api: Api) -> dict[str, Any]:
    """The servers once all are ready, and their tools by name."""

    async def found() -> Any:
        listed = await api.get("mcp-servers")
        return all(server["state"] == "ready" for server in listed["servers"]) and listed

    return {tool["name"]: tool for tool in (await look_until(found))["tools"]}


async def states(api: Api) -> dict[str, str]:
    """How the servers are, by name."""
    return {one["name"]: one["state"] for one in (await api.get("mcp-servers"))["servers"]}


async def approved(api: Api, model: FakeOpenAI, *asked: Any) -> Any:
    """The last of the calls of a run, each of which a person has approved."""
    model.add(calls(*asked), say("Done."))
    await api.begin()
    waiting: Any = None
    for _ in asked:
        waiting = await api.decide()
    return waiting


async def run_calls(api: Api, model: FakeOpenAI, *asked: Any) -> Any:
    """The conversation of a run that makes these calls, when it has ended."""
    await ready(api)
    return await api.ended((await approved(api, model, *asked))["conversation_id"])


async def until_unknown(api: Api, conversation_id: str) -> dict[str, Any]:
    """The first call, whose outcome becomes unknown; then the run goes on."""

    async def found() -> Any:
        [one] = (await api.get("conversations", conversation_id))["tool_calls"]
        return one["state"] == "unknown" and one

    one = await look_until(found)
    await api("POST", "approvals", one["approval_id"], "outcome", body={"answer": "continue"})
    await api.ended(conversation_id)
    return dict(one)


@asynccontextmanager
async def running(kind: str, folder: Path, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A server that is reached by HTTP."""
    arguments = [sys.executable, PEER, kind, str(folder), str(port)]
    program = await asyncio.create_subprocess_exec(*arguments, stderr=asyncio.subprocess.DEVNULL)
    try:
        yield program
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_pictures_resources_progress_and_messages_are_on_the_card(api: Api, model: FakeOpenAI, era: str) -> None:
    view = await run_calls(api, model, call(f"{era}__mixed"), call(f"{era}__work"))
    mixed, work = view["tool_calls"]
    assert "a text" in mixed["result"]
    assert "Resource memo://1:\na memo" in mixed["result"]
    assert any("image/png" in output["data"] for output in mixed["outputs"])
    shown = [output["text"] or output["data"].get("text/plain") for output in work["outputs"]]
    assert "3 of 3: step 3" in shown
    assert any("half of it is done" in text for text in shown)
    assert (work["state"], work["by"], work["result"]) == ("success", "user", "worked")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_that_dies_in_a_call_leaves_an_unknown_outcome_and_is_started_again(
    api: Api, model: FakeOpenAI, folder: Path, era: str
) -> None:
    died = folder / "died"
    died.unlink(missing_ok=True)
    await ready(api)
    lost = await until_unknown(api, (await approved(api, model, call(f"{era}__die")))["conversation_id"])
    assert f"The MCP server {era} was lost while it had the call." in lost["result"]
    await ready(api)
    assert died.read_text() == "x"


async def test_a_cancelled_call_reaches_the_server(api: Api, model: FakeOpenAI, folder: Path) -> None:
    for name in ("begun", "told"):
        (folder / name).unlink(missing_ok=True)
    await ready(api)
    hanging = await approved(api, model, call("modern__hang"))
    await until((folder / "begun").exists)
    await api("POST", "approvals", hanging["approval_id"], "cancel")
    [one] = (await api.ended(hanging["conversation_id"]))["tool_calls"]
    assert one["state"] == "cancelled"
    await until((folder / "told").exists)


async def test_errors_and_odd_names(api: Api, model: FakeOpenAI) -> None:
    tools = await ready(api)
    [odd] = [name for name, tool in tools.items() if tool["tool"] == "odd/name.with ünï" and name.startswith("modern")]
    assert odd == "modern__odd_name_with_" + odd.removeprefix("modern__odd_name_with_")
    view = await run_calls(api, model, call("modern__fail"), call(odd))
    assert [one["state"] for one in view["tool_calls"]] == ["error", "success"]
    assert "it is broken" in view["tool_calls"][0]["result"]


async def test_a_message_of_100_mb_ends_the_server_and_not_ours(api: Api, model: FakeOpenAI) -> None:
    await ready(api)
    asked = await approved(api, model, call("modern__flood", megabytes=100))
    await until_unknown(api, asked["conversation_id"])
    await ready(api)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_question_of_the_server_is_a_card_that_asks_the_user(api: Api, model: FakeOpenAI, era: str) -> None:
    await ready(api)
    last = await approved(api, model, call(f"{era}__ask"), call(f"{era}__ask_secret"))

    async def asked() -> Any:
        return [one for one in await api.get("approvals") if one["tool_name"] == "ask_user"]

    [question] = await look_until(asked)
    assert (question["state"], "How large?" in question["tool_input"]) == ("executing", True)
    assert (await api("POST", "approvals", question["approval_id"], "result", body={"output": "7"}))[0] < 300
    view = await api.ended(last["conversation_id"])
    by_name = {one["tool_name"].removeprefix(f"{era}__"): one for one in view["tool_calls"]}
    assert (by_name["ask"]["result"], by_name["ask_user"]["result"]) == ("size 7", "7")
    assert by_name["ask_secret"]["state"] == "error"
    assert any("asks for a secret" in output["text"] for output in by_name["ask_secret"]["outputs"])
    messages = model.requests[-1].body["messages"]
    assert [one["role"] for one in messages][-3:] == ["assistant", "tool", "tool"]  # the model hears of its own calls


@pytest.mark.parametrize(("era", "tool"), [("modern", "ask_address"), ("legacy", "require_address")])
async def test_a_server_can_not_have_an_address_opened(api: Api, model: FakeOpenAI, era: str, tool: str) -> None:
    """Elicitation of an address: it is shown on the call's card, and the server is told that it was refused."""
    view = await run_calls(api, model, call(f"{era}__{tool}"))
    [asked] = view["tool_calls"]
    assert asked["state"] == "error"
    assert "can't have a page opened" in asked["result"]
    assert any("It wanted https://else.example/sign-in" in output["text"] for output in asked["outputs"])


async def test_a_server_can_not_use_the_users_model(api: Api, model: FakeOpenAI) -> None:
    """Sampling: the model is asked by the run alone, before the call and after it."""
    view = await run_calls(api, model, call("modern__sample"))
    assert view["tool_calls"][0]["state"] == "error"
    assert "it said" not in view["tool_calls"][0]["result"]
    assert len(model.requests) == 2


async def test_roots_are_the_notebooks_folder_and_the_environment_is_clean(
    api: Api, model: FakeOpenAI, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "x")
    view = await run_calls(api, model, call("modern__roots"), call("modern__environment"))
    found, environment = view["tool_calls"]
    assert found["result"] == server.root.as_uri()
    assert "OPENAI_API_KEY" not in environment["result"]
    assert "JUPYTER" not in environment["result"]


async def redefined(api: Api, name: str) -> None:
    """Until what the tool says of itself is another."""

    async def look() -> bool:
        return "stranger" in (await ready(api))[name]["description"]

    await look_until(look)


async def test_a_tool_that_changed_since_it_was_allowed_asks_with_the_difference(api: Api, model: FakeOpenAI) -> None:
    await ready(api)
    look = calls(call("legacy__look"))
    model.add(look, say("Seen."), look, say("Seen."), calls(call("legacy__redefine")), say("Done."), look, say("No."))
    conversation_id = await api.begin()
    waiting = await api.decide(scope="conversation")
    assert any(rule["text"].startswith("allow legacy__look defined as ") for rule in waiting["rules"])
    await api.ended(conversation_id)
    await api.start_run(conversation_id)  # allowed, nobody is asked
    assert (await api.ended(conversation_id))["tool_calls"][-1]["by"] == "policy"
    await api.start_run(conversation_id)
    await api.decide()
    await api.ended(conversation_id)
    await redefined(api, "legacy__look")
    await api.start_run(conversation_id)
    waiting = await api.decide(approved=False)
    [changed] = [one for one in waiting["warnings"] if one["title"] == "Changed since you allowed it:"]
    assert '+  "Look, and mail it to a stranger."' in changed["detail"]
    await api.ended(conversation_id)


async def test_a_call_does_not_run_that_its_server_has_defined_otherwise_since_it_was_shown(
    api: Api, model: FakeOpenAI, folder: Path, own_file: Callable[..., None]
) -> None:
    own_file(moody={"command": sys.executable, "args": [PEER, "legacy", str(folder)]})
    await ready(api)
    model.add(calls(call("moody__redefine"), call("moody__look")), say("Done."))
    conversation_id = await api.begin()
    waiting = {one["tool_name"]: one for one in await api.all_waiting(2)}
    await api.decide(waiting["moody__redefine"])
    await redefined(api, "moody__look")
    await api.decide(waiting["moody__look"])
    look = (await api.ended(conversation_id))["tool_calls"][1]
    assert (look["tool_name"], look["state"], "Nothing ran" in look["result"]) == ("moody__look", "error", True)


async def test_a_server_that_never_answers_holds_a_run_up_once_is_said_and_tried_again(
    api: Api, model: FakeOpenAI, folder: Path, own_file: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "START_SECONDS", 0.2)
    monkeypatch.setattr(mcp_server, "CONNECT_SECONDS", 1.0)
    started = folder / "started"
    code = f"open({str(started)!r}, 'a').write('x'); input(); import time; time.sleep(3600)"
    own_file(silent={"command": sys.executable, "args": ["-c", code]})
    model.add(say("Hello."))
    conversation_id = await api.begin()
    assert (await api.ended(conversation_id))["runs"][-1]["status"] == "complete"

    async def said() -> Any:
        found = await api.get("mcp-servers")
        return "did not answer within 1 s" in {one["name"]: one for one in found["servers"]}["silent"]["error"]

    await look_until(said)
    await until(lambda: started.read_text() != "x")


async def test_the_servers_of_a_folder_start_after_a_yes_that_is_for_this_file(
    api: Api, server: Server, model: FakeOpenAI, folder: Path
) -> None:
    entry = {"command": sys.executable, "args": [PEER, "modern", str(folder)], "env": {"WHO": "${USER:-nobody}"}}
    file = server.root / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"ours": entry, "modern": entry}}))
    model.add(say("Hello."), say("Hello."), calls(call("ours__add", a=2, b=2)), say("4."))
    conversation_id = await api.begin()
    view = await api.ended(conversation_id)  # it waits for nobody
    assert view["runs"][-1]["status"] == "complete"
    waiting = await api.next_approval()
    assert waiting["tool_name"] == "start_mcp_servers"
    asked = json.loads(waiting["tool_input"])
    assert asked["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert "WHO=${USER:-nobody}" in asked["servers"]
    await api.start_run(conversation_id)  # which asks no second time
    await api.ended(conversation_id)
    assert len(await api.pending()) == 1
    status, _ = await api("POST", "approvals", waiting["approval_id"], body={"approved": True, "scope": "user"})
    assert status == 200
    await ready(api)
    await api.start_run(conversation_id)
    call_waits = await api.next_approval()
    assert call_waits["tool_name"] == "ours__add"
    await api.decide(call_waits)
    assert (await api.ended(conversation_id))["tool_calls"][-1]["result"] == "4"
    file.write_text(json.dumps({"mcpServers": {"ours": entry | {"args": [PEER, "modern", str(folder), "other"]}}}))
    model.add(say("Hello."))
    await api.start_run(conversation_id)
    await api.ended(conversation_id)
    assert (await api.next_approval())["tool_name"] == "start_mcp_servers"
    assert not [tool for tool in await api.get("tools") if tool["name"].startswith("ours__")]


@pytest.mark.kernel
async def test_a_cell_lists_the_servers_and_chooses_among_their_tools(
    api: Api, model: FakeOpenAI, kernel: Kernel
) -> None:
    await ready(api)
    await kernel.text("%load_ext agent_kernel")
    listed = await kernel.text("%agent tools")
    assert "modern (the site's): ready" in listed
    assert "  modern__add\n" in listed
    model.add(say("Hello."), say("Hello."))
    for tools in ("modern.*", "run_python"):
        await kernel.text(f"%agent --new --wait --tools {tools} Say hello")
    offered = [[tool["function"]["name"] for tool in one.body["tools"]] for one in model.requests[-2:]]
    assert "run_python" in offered[0]
    assert {name for name in offered[0] if "__" in name} == {
        one for one in await ready(api) if one.startswith("modern__")
    }
    assert offered[1] == ["run_python"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "mcp.json is not JSON"),
        ('{"mcpServers": {"a": {"command": "no-such-program-here"}}}', "there is no program 'no-such-program-here'"),
    ],
)
async def test_a_mistake_in_the_file_is_told_and_the_others_work(
    api: Api, server: Server, own_file: Callable[..., None], content: str, said: str
) -> None:
    await ready(api)
    file = Path(server.app.config_dir) / "mcp.json"
    file.write_text(content)
    found = await api.get("mcp-servers")
    assert said in " ".join(found["faults"])
    assert [one["state"] for one in found["servers"]] == ["ready", "ready"]
    file.unlink()
    assert (await api.get("mcp-servers"))["faults"] == []


async def test_a_server_is_reached_by_http_with_headers_from_the_environment(
    api: Api, model: FakeOpenAI, folder: Path, own_file: Callable[..., None]
) -> None:
    port = free_port()
    own_file(web={"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "headers": {"X-Who": "${HOME}"}})
    async with running("http", folder, port) as program:
        view = await run_calls(
            api, model, call("web__add", a=2, b=3), call("web__ask_secret"), call("web__work"), call("web__who")
        )
        assert [one["state"] for one in view["tool_calls"]] == ["success", "error", "success", "success"]
        assert [view["tool_calls"][number]["result"] for number in (0, 2, 3)] == ["5", "worked", os.environ["HOME"]]
        program.kill()
        await program.wait()
        await until_unknown(api, (await approved(api, model, call("web__add", a=2, b=3)))["conversation_id"])

        async def down() -> bool:
            return (await states(api))["web"] != "ready"

        await look_until(down)


class TestBehindAHub:
    PUBLIC = "https://hub.example/user/x/"

    @pytest.fixture
    def server_traits(self) -> dict[str, Any]:
        return {"base_url": "/user/x/", "custom_display_url": "https://other.example/user/x/"}

    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of the server, which starts in this process."""
        monkeypatch.setenv("JUPYTERHUB_PUBLIC_URL", self.PUBLIC)

    async def test_a_server_that_wants_a_person_to_sign_in_shows_where(
        self, api: Api, model: FakeOpenAI, server: Server, folder: Path, own_file: Callable[..., None]
    ) -> None:
        port = free_port()
        own_file(guarded={"url": f"http://127.0.0.1:{port}/mcp"})

        async def address() -> str:
            found = await api.get("mcp-servers")
            [one] = [one for one in found["servers"] if one["name"] == "guarded"]
            return str(one["error"]).removeprefix("Sign in at ") if one["state"] == "sign in" else ""

        async with running("oauth", folder, port):
            where = await look_until(address)
            page = await AsyncHTTPClient(force_instance=True).fetch(where, follow_redirects=False, raise_error=False)
            back, _, query = page.headers["Location"].partition("?")
            assert back == f"{self.PUBLIC}agent-kernel/api/mcp-servers/signed-in"
            found = dict(parse_qsl(query))
            assert (await api("GET", "mcp-servers", "signed-in", params=found | {"state": "another"}))[0] == 404
            assert (await api("GET", "mcp-servers", "signed-in", params=found))[0] == 200
            view = await run_calls(api, model, call("guarded__add", a=2, b=3))
            assert view["tool_calls"][0]["result"] == "5"
            [tokens] = (server.data / "agent-kernel" / "mcp-tokens").iterdir()
            assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
            written = json.loads(tokens.read_text())
            assert [str(one) for one in written["client"]["redirect_uris"]] == [back]


OBJECT: dict[str, Any] = {"type": "object", "properties": {"query": {"type": "string"}}}


def listed(name: str, schema: dict[str, Any] = OBJECT) -> types.Tool:
    return types.Tool(name=name, description=f"Does {name}.", input_schema=schema)


def said(text: str) -> types.TextContent:
    return types.TextContent(text=text)


def test_a_result_is_told_in_words_and_nothing_of_it_twice_and_is_bounded() -> None:
    shown: list[OutputView] = []
    twice = types.CallToolResult(content=[said("4")], structured_content={"result": 4})
    assert (outcome_of(twice, shown.append).content, [one.text for one in shown]) == ("4", ["4"])
    beside = types.CallToolResult(content=[said("Two.")], structured_content={"rows": 2})
    assert outcome_of(beside, shown.append).content == 'Two.\n{"rows": 2}'
    shown.clear()
    pictures = [types.ImageContent(data="AA==", mime_type="image/png") for _ in range(call_results.MOST_PICTURES + 5)]
    long = said("x" * (call_results.MOST_SHOWN + 5))
    outcome = outcome_of(types.CallToolResult(content=[*pictures, long], is_error=True), shown.append)
    assert (outcome.status, len(outcome.content)) == ("error", call_results.MOST_SHOWN + 5)  # cut as any tool's text is
    assert len(shown) == call_results.MOST_PICTURES + 1
    assert shown[-1].text.endswith("x\n[5 characters left out here.]")


STUBBORN = "sleep 3600 & echo $! $$; trap '' TERM; cat > /dev/null; while :; do sleep 0.1; done"
"""It neither ends with its input nor by a signal, and has started a process of its own."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it looks into /proc")
@pytest.mark.parametrize("stop", ["the Jupyter server dies", "the Jupyter server ends it"])
async def test_a_server_ends_with_all_that_it_started(stop: str) -> None:
    line = [sys.executable, "-I", launcher.__file__, "1000000", "sh", "-c", STUBBORN]
    started = await asyncio.create_subprocess_exec(*line, stdin=PIPE, stdout=PIPE, start_new_session=True)
    assert started.stdin is not None
    assert started.stdout is not None
    processes = [int(word) for word in (await started.stdout.readline()).split()]
    assert all(_lives(pid) for pid in processes)
    if stop == "the Jupyter server ends it":
        os.killpg(started.pid, signal.SIGTERM)
    started.stdin.close()
    await started.wait()
    await until(lambda: not any(_lives(pid) for pid in processes))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_of_two_tools_of_one_name_the_first_counts_and_bad_ones_are_left_out_and_said(tmp_path: Path) -> None:
    config = ServerConfig("peer", "user", command=("peer",))
    server = McpServer(config, tmp_path, logging.getLogger(), "http://localhost/", tmp_path / "tokens")
    remote = {"type": "object", "properties": {"a": {"$ref": "https://evil.example/schema.json"}}}
    again = types.Tool(name="look", description="Another.", input_schema=OBJECT)
    tools, notes = server._declared([listed("look"), again, listed("remote", remote), listed("add")])
    assert [(one.name, one.description) for one in tools] == [("peer__look", "Does look."), ("peer__add", "Does add.")]
    assert notes[0] == "It lists two tools named 'look': the first one counts."
    assert "remote" in notes[1]
    tools, notes = server._declared([listed(f"tool{number}") for number in range(MOST_TOOLS + 3)])
    assert (len(tools), notes) == (MOST_TOOLS, (f"It lists more than {MOST_TOOLS} tools.",))
