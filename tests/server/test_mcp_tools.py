"""Tools of MCP servers in runs: a server in Python with the official package, and a real Jupyter server."""

import asyncio
import hashlib
import inspect
import json
import re
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import pytest
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyUrl
from tornado.httpclient import AsyncHTTPClient

from agent_kernel import doctor
from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel.tools import server_tools
from agent_kernel_server.mcp_tools import server as mcp_server
from agent_kernel_server.mcp_tools import servers, sign_in
from tests.ports import free_port
from tests.server.client import Api, Kernel, service_of
from tests.server.serving import Server

T = TypeVar("T")
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
    yield lambda **servers: file.write_text(json.dumps({"mcpServers": servers}))
    file.unlink(missing_ok=True)


async def ready(api: Api) -> dict[str, Any]:
    """The servers once all are ready, and their tools by name."""

    async def found() -> Any:
        _, listed = await api("GET", "mcp-servers")
        return all(server["state"] == "ready" for server in listed["servers"]) and listed

    return {tool["name"]: tool for tool in (await until(found))["tools"]}


async def until(condition: Callable[[], Awaitable[T] | T], seconds: float = 60.0) -> T:
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            value: Any = await found if inspect.isawaitable(found) else found
            if value:
                return value  # type: ignore[no-any-return]
            await asyncio.sleep(0.05)


async def approved(api: Api, model: FakeOpenAI, *asked: Any) -> Any:
    """The last of the calls of a run, each of which a person has approved."""
    model.add(calls(*asked), say("Done."))
    conversation_id = await api.new_conversation()
    await api.start_run(conversation_id)
    for _ in asked:
        waiting = await api.next_approval()
        await api("POST", "approvals", waiting["approval_id"], body={"approved": True})
    return waiting


async def run_calls(api: Api, model: FakeOpenAI, *asked: Any) -> Any:
    """The conversation of a run that makes these calls, when it has ended."""
    await ready(api)
    return await api.ended((await approved(api, model, *asked))["conversation_id"])


async def until_unknown(api: Api, conversation_id: str) -> None:
    """Until the first call's outcome is unknown; then the run goes on."""

    async def found() -> Any:
        [one] = (await api("GET", "conversations", conversation_id))[1]["tool_calls"]
        return one["state"] == "unknown" and one

    one = await until(found)
    await api("POST", "approvals", one["approval_id"], "outcome", body={"answer": "continue"})
    await api.ended(conversation_id)


async def test_the_list_of_tools_has_them_with_their_servers_state(api: Api) -> None:
    await ready(api)
    _, tools = await api("GET", "tools")
    by_name = {tool["name"]: tool for tool in tools}
    assert by_name["modern__add"]["server_state"] == "ready"
    assert by_name["modern__add"]["approval"] == by_name["modern__look"]["approval"] == "ask"  # a hint allows nothing
    assert by_name["run_python"].get("server") is None
    _, listed = await api("GET", "mcp-servers")
    assert all(one["tokens"] > 0 for one in listed["servers"])  # of each request, as the model is told of its tools


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
    await until_unknown(api, (await approved(api, model, call(f"{era}__die")))["conversation_id"])
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


async def test_a_flood_of_notifications_is_cut_and_the_call_ends(api: Api, model: FakeOpenAI) -> None:
    [one] = (await run_calls(api, model, call("modern__chatter")))["tool_calls"]
    assert (one["state"], one["result"]) == ("success", "done")
    assert sum(len(output["text"]) for output in one["outputs"]) < 25_000
    assert any("More messages are left out." in output["text"] for output in one["outputs"])


async def test_a_server_that_answers_everything_twice_is_used_as_any(
    api: Api, model: FakeOpenAI, folder: Path, own_file: Callable[..., None]
) -> None:
    own_file(double={"command": sys.executable, "args": [PEER, "twice", str(folder)]})
    view = await run_calls(api, model, call("double__add", a=1, b=1), call("double__add", a=2, b=2))
    assert [(one["state"], one["result"]) for one in view["tool_calls"]] == [("success", "2"), ("success", "4")]


async def test_a_server_that_never_answers_holds_a_run_up_once_is_said_and_tried_again(
    api: Api, model: FakeOpenAI, folder: Path, own_file: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "START_SECONDS", 0.2)
    monkeypatch.setattr(mcp_server, "CONNECT_SECONDS", 1.0)
    started = folder / "started"
    code = f"open({str(started)!r}, 'a').write('x'); input(); import time; time.sleep(3600)"
    own_file(silent={"command": sys.executable, "args": ["-c", code]})
    model.add(say("Hello."))
    conversation_id = await api.new_conversation()
    await api.start_run(conversation_id)
    assert (await api.ended(conversation_id))["runs"][-1]["status"] == "complete"

    async def said() -> Any:
        _, found = await api("GET", "mcp-servers")
        return "did not answer within 1 s" in {one["name"]: one for one in found["servers"]}["silent"]["error"]

    await until(said)
    await until(lambda: started.read_text() != "x")


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
        return [one for one in (await api("GET", "approvals"))[1] if one["tool_name"] == "ask_user"]

    [question] = await until(asked)
    assert question["state"] == "executing"
    assert "How large?" in question["tool_input"]
    assert (await api("POST", "approvals", question["approval_id"], "result", body={"output": "7"}))[0] < 300
    view = await api.ended(last["conversation_id"])
    by_name = {one["tool_name"]: one for one in view["tool_calls"]}
    assert by_name[f"{era}__ask"]["result"] == "size 7"
    assert by_name["ask_user"]["result"] == "7"
    assert by_name[f"{era}__ask_secret"]["state"] == "error"
    assert any("asks for a secret" in output["text"] for output in by_name[f"{era}__ask_secret"]["outputs"])
    messages = model.requests[-1].body["messages"]
    assert [one["role"] for one in messages][-3:] == ["assistant", "tool", "tool"]  # the model hears of its own calls


@pytest.mark.parametrize("tool", ["ask_address", "require_address"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_can_not_have_an_address_opened(api: Api, model: FakeOpenAI, era: str, tool: str) -> None:
    """Elicitation of an address: it is shown on the call's card, and the server is told that it was refused."""
    view = await run_calls(api, model, call(f"{era}__{tool}"))
    [asked] = view["tool_calls"]
    assert asked["state"] == "error"
    assert "can't have a page opened" in asked["result"]
    assert any("It wanted https://else.example/sign-in" in output["text"] for output in asked["outputs"])


async def test_a_server_that_wants_to_be_called_again_and_again_is_left(api: Api, model: FakeOpenAI) -> None:
    view = await run_calls(api, model, call("modern__ask_forever"), call("modern__add", a=1, b=2))
    left, added = view["tool_calls"]
    assert (left["state"], added["result"]) == ("error", "3")
    assert "The server gave no result, and wanted to be asked again more than 10 times." in left["result"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_can_not_use_the_users_model(api: Api, model: FakeOpenAI, era: str) -> None:
    """Sampling: the model is asked by the run alone, before the call and after it."""
    view = await run_calls(api, model, call(f"{era}__sample"))
    assert view["tool_calls"][0]["state"] == "error"
    assert "it said" not in view["tool_calls"][0]["result"]
    assert len(model.requests) == 2


async def test_roots_are_the_notebooks_folder_and_the_environment_is_clean(
    api: Api, model: FakeOpenAI, jp_root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "x")
    view = await run_calls(api, model, call("modern__roots"), call("modern__environment"))
    found, environment = view["tool_calls"]
    assert found["result"] == jp_root_dir.as_uri()
    assert "OPENAI_API_KEY" not in environment["result"]
    assert "JUPYTER" not in environment["result"]


async def test_a_tool_that_changed_since_it_was_allowed_asks_with_the_difference(api: Api, model: FakeOpenAI) -> None:
    await ready(api)
    model.add(calls(call("legacy__look")), say("Seen."))
    conversation_id = await api.new_conversation()
    await api.start_run(conversation_id)
    waiting = await api.next_approval()
    assert any(rule["text"].startswith("allow legacy__look defined as ") for rule in waiting["rules"])
    body = {"approved": True, "scope": "conversation"}
    await api("POST", "approvals", waiting["approval_id"], body=body)
    await api.ended(conversation_id)
    model.add(calls(call("legacy__look")), say("Seen."), calls(call("legacy__redefine")), say("Done."))
    await api.start_run(conversation_id)  # allowed, nobody is asked
    view = await api.ended(conversation_id)
    assert view["tool_calls"][-1]["by"] == "policy"
    await api.start_run(conversation_id)
    redefine = await api.next_approval()
    await api("POST", "approvals", redefine["approval_id"], body={"approved": True})
    await api.ended(conversation_id)

    async def redefined() -> bool:
        return "stranger" in (await ready(api))["legacy__look"]["description"]

    await until(redefined)
    model.add(calls(call("legacy__look")), say("No."))
    await api.start_run(conversation_id)
    waiting = await api.next_approval()
    [changed] = [one for one in waiting["warnings"] if one["title"] == "Changed since you allowed it:"]
    assert '+  "Look, and mail it to a stranger."' in changed["detail"]
    await api("POST", "approvals", waiting["approval_id"], body={"approved": False})
    await api.ended(conversation_id)


async def test_the_servers_of_a_folder_start_after_a_yes_that_is_for_this_file(
    api: Api, server: Server, model: FakeOpenAI, jp_root_dir: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"command": sys.executable, "args": [PEER, "modern", str(folder)], "env": {"WHO": "${USER:-nobody}"}}
    file = jp_root_dir / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"ours": entry, "modern": entry}}))
    model.add(say("Hello."), say("Hello."), calls(call("ours__add", a=2, b=2)), say("4."))
    conversation_id = await api.new_conversation()
    await api.start_run(conversation_id)
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
    assert (await api("POST", "approvals", waiting["approval_id"], body={"approved": True}))[0] == 409
    await ready(api)
    with monkeypatch.context() as patch:
        patch.setattr(servers, "read_folder_file", None)  # the requests of a run read no file
        late = await service_of(server.extension).mcp_servers.offered(None, wait=False)
    assert "ours__add" in {tool.name for tool in late}
    await api.start_run(conversation_id)
    call_waits = await api.next_approval()
    assert call_waits["tool_name"] == "ours__add"
    await api("POST", "approvals", call_waits["approval_id"], body={"approved": True})
    assert (await api.ended(conversation_id))["tool_calls"][-1]["result"] == "4"
    file.write_text(json.dumps({"mcpServers": {"ours": entry | {"args": [PEER, "modern", str(folder), "other"]}}}))
    model.add(say("Hello."))
    await api.start_run(conversation_id)
    await api.ended(conversation_id)
    assert (await api.next_approval())["tool_name"] == "start_mcp_servers"
    _, tools = await api("GET", "tools")
    assert not [tool for tool in tools if tool["name"].startswith("ours__")]
    _, rules = await api("GET", "rules")
    for rule in rules:
        await api("DELETE", "rules", rule["rule_id"])


async def runs_of(api: Api, kernel: Kernel, model: FakeOpenAI, agent: str, *turns: Any) -> Any:
    """The calls of a run of this agent, in a cell that waits for it, and whether each was given a stored outcome."""
    before = {one["conversation_id"] for one in (await api("GET", "conversations"))[1]}
    model.add(*turns, say("Done."))
    await kernel.run(f"import agent_kernel as ak\n%load_ext agent_kernel\nagent = {agent}\nrun = agent.run('Go.')")
    [made] = {one["conversation_id"] for one in (await api("GET", "conversations"))[1]} - before
    found = (await api.ended(made))["tool_calls"]
    return [(one["tool_name"].removeprefix("modern__"), one["cached_at"] is not None) for one in found]


@pytest.mark.kernel
async def test_a_tool_that_a_person_named_gives_its_outcome_again_until_something_has_run(
    api: Api, model: FakeOpenAI, kernel: Kernel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready(api)
    offered = "tools=['run_python', 'modern.*'], policy='allow'"
    agent = f"ak.Agent({offered}, cache=['modern.look', 'modern__fail'])"
    look, fail = call("modern__look"), call("modern__fail")
    add, code = call("modern__add", a=1, b=2), call("run_python", code="1")
    looks = folder / "looks of modern"
    looks.unlink(missing_ok=True)
    assert await runs_of(api, kernel, model, agent, look, look, add, look, look, code, look) == [
        ("look", False),
        ("look", True),
        ("add", False),
        ("look", False),
        ("look", True),
        ("run_python", False),
        ("look", False),
    ]
    assert looks.read_text() == "xxx"
    assert await runs_of(api, kernel, model, agent, fail, fail) == [("fail", False)] * 2
    # It says of itself that it only reads, which allows nothing.
    assert await runs_of(api, kernel, model, f"ak.Agent({offered})", look, look) == [("look", False)] * 2
    monkeypatch.setattr(server_tools, "CACHE_SECONDS", 1e-6)
    assert await runs_of(api, kernel, model, agent, look, look) == [("look", False)] * 2


@pytest.mark.kernel
async def test_the_outcome_of_a_servers_call_that_asked_a_person_is_not_given_again(
    api: Api, model: FakeOpenAI, kernel: Kernel
) -> None:
    await ready(api)
    ask = call("modern__ask")
    agent = "ak.Agent(tools=['run_python', 'modern.*'], policy='allow', cache=['modern.ask'])"

    async def answer_two() -> None:
        answered: set[str] = set()

        async def asked() -> Any:
            _, listed = await api("GET", "approvals")
            return {one["approval_id"] for one in listed if one["tool_name"] == "ask_user"} - answered

        for size in ("7", "8"):
            [question] = await until(asked)
            answered.add(question)
            await api("POST", "approvals", question, "result", body={"output": size})

    answering = asyncio.create_task(answer_two())
    found = await runs_of(api, kernel, model, agent, ask, ask)
    await answering
    assert [one for one in found if one[0] == "ask"] == [("ask", False)] * 2


@pytest.mark.kernel
async def test_many_tools_are_found_and_called_by_name_with_cards_of_their_own(
    api: Api, model: FakeOpenAI, kernel: Kernel
) -> None:
    await ready(api)
    model.add(
        calls(call("find_tools", query="add two numbers")),
        calls(call("call_tool", name="modern__add", arguments={"a": 20, "b": 22})),
        say("42."),
    )
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    await api.start_run(conversation_id)
    waiting = await api.next_approval()
    assert (waiting["tool_name"], json.loads(waiting["tool_input"])) == ("modern__add", {"a": 20, "b": 22})
    assert any(rule["text"].startswith("allow modern__add defined as ") for rule in waiting["rules"])
    await api("POST", "approvals", waiting["approval_id"], body={"approved": True})
    found, added = (await api.ended(conversation_id))["tool_calls"]
    assert (found["by"], found["state"]) == ("policy", "success")
    assert "modern__add: Add two numbers." in found["result"]
    assert added["result"] == "42"


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
        ('{"mcpServers": []}', 'mcp.json has no "mcpServers"'),
        ('{"mcpServers": {"a": {"command": "x", "command": "y"}}}', "has a name twice"),
        ('{"mcpServers": {"a": {}}}', 'it needs either a "command" or a "url"'),
        ('{"mcpServers": {"a": {"command": 3}}}', "command: Input should be a valid string"),
        ('{"mcpServers": {"a": {"command": "no-such-program-here"}}}', "there is no program 'no-such-program-here'"),
        ('{"mcpServers": {"a": {"url": "https://x.example", "headers": {"A": "${NO_SUCH}"}}}}', "NO_SUCH is not set"),
        ('{"mcpServers": {"modern": {"command": "sh"}}}', "The user's server modern is left out"),
    ],
)
async def test_a_mistake_in_the_file_is_told_and_the_others_work(
    api: Api, server: Server, own_file: Callable[..., None], content: str, said: str
) -> None:
    await ready(api)
    file = Path(server.app.config_dir) / "mcp.json"
    file.write_text(content)
    _, found = await api("GET", "mcp-servers")
    assert said in " ".join(found["faults"])
    assert [one["state"] for one in found["servers"]] == ["ready", "ready"]
    file.unlink()
    assert (await api("GET", "mcp-servers"))[1]["faults"] == []


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


async def test_a_server_is_reached_by_http_with_headers_from_the_environment(
    api: Api, model: FakeOpenAI, folder: Path, own_file: Callable[..., None]
) -> None:
    port = free_port()
    own_file(web={"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "headers": {"X-Who": "${HOME}"}})
    async with running("http", folder, port) as program:
        view = await run_calls(api, model, call("web__add", a=2, b=3), call("web__ask_secret"), call("web__work"))
        assert [one["state"] for one in view["tool_calls"]] == ["success", "error", "success"]
        assert [view["tool_calls"][number]["result"] for number in (0, 2)] == ["5", "worked"]
        program.kill()
        await program.wait()
        await until_unknown(api, (await approved(api, model, call("web__add", a=2, b=3)))["conversation_id"])

        async def down() -> bool:
            _, found = await api("GET", "mcp-servers")
            return {one["name"]: one["state"] for one in found["servers"]}["web"] != "ready"

        await until(down)


@pytest.mark.parametrize("known_by", ["site", "hub", "hub before site"])
class TestBehindAHub:
    PUBLIC = "https://hub.example/user/x/"

    @pytest.fixture
    def server_traits(self, known_by: str) -> dict[str, Any]:
        of_site = {"site": self.PUBLIC, "hub": ""}.get(known_by, "https://other.example/user/x/")
        return {"base_url": "/user/x/", "custom_display_url": of_site}

    @pytest.fixture(autouse=True)
    def environment(self, known_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of the server, which starts in this process. The variable is empty where a hub does not know its address."""
        monkeypatch.setenv("JUPYTERHUB_PUBLIC_URL", "" if known_by == "site" else self.PUBLIC)

    async def test_a_server_that_wants_a_person_to_sign_in_shows_where(
        self, api: Api, model: FakeOpenAI, server: Server, folder: Path, own_file: Callable[..., None]
    ) -> None:
        port = free_port()
        own_file(guarded={"url": f"http://127.0.0.1:{port}/mcp"})

        async def address() -> str:
            _, found = await api("GET", "mcp-servers")
            [one] = [one for one in found["servers"] if one["name"] == "guarded"]
            return str(one["error"]).removeprefix("Sign in at ") if one["state"] == "sign in" else ""

        async with running("oauth", folder, port):
            where = await until(address)
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


async def test_doctor_says_how_the_servers_of_a_running_jupyter_server_are(
    api: Api, server: Server, folder: Path, own_file: Callable[..., None]
) -> None:
    await ready(api)
    port = free_port()
    own_file(
        gone={"command": sys.executable, "args": ["-c", "raise SystemExit"]},
        guarded={"url": f"http://127.0.0.1:{port}/mcp"},
    )

    async def found() -> Any:
        _, listed = await api("GET", "mcp-servers")
        return {one["name"]: one["state"] for one in listed["servers"]} == states

    states = {"modern": "ready", "legacy": "ready", "gone": "down", "guarded": "sign in"}
    async with running("oauth", folder, port):
        await until(found)
        server.app.write_server_info_file()
        told = {finding.text: finding for finding in await doctor.of_running_servers()}
    of_state = {name: next(text for text in told if f"server {name} of" in text) for name in states}
    assert {name: told[text].mark for name, text in of_state.items()} == {
        "modern": "ok",
        "legacy": "ok",
        "gone": "note",
        "guarded": "note",
    }
    assert re.search(r" is ready: \d+ tools, about \d+ tokens", of_state["modern"])
    assert f"is sign in. Sign in at http://127.0.0.1:{port}/" in of_state["guarded"]


@pytest.mark.soak
async def test_the_reference_server_of_npm_works(api: Api, model: FakeOpenAI, own_file: Callable[..., None]) -> None:
    own_file(everything={"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything@2026.8.31"]})
    asked = [
        call("everything__echo", message="hello"),
        call("everything__get-tiny-image"),
        call("everything__get-structured-content", location="New York"),
        call("everything__get-roots-list"),
        call("everything__trigger-long-running-operation", duration=1, steps=2),
    ]
    view = await run_calls(api, model, *asked)
    results = [one["result"] for one in view["tool_calls"]]
    assert [one["state"] for one in view["tool_calls"]] == ["success"] * len(asked)
    assert results[0] == "Echo: hello"
    assert "temperature" in results[2]
    assert "file://" in results[3]
    assert any("image/png" in output["data"] for output in view["tool_calls"][1]["outputs"])


async def test_a_registration_is_kept_until_browsers_come_back_elsewhere(tmp_path: Path) -> None:
    here = "http://Localhost:80/signed-in"  # which is compared as it is kept
    info = OAuthClientInformationFull(client_id="x", redirect_uris=[AnyUrl(here)])
    await sign_in._Tokens(tmp_path / "tokens.json", here).set_client_info(info)
    found = [
        await sign_in._Tokens(tmp_path / "tokens.json", one).get_client_info() for one in (here, "http://localhost:81/")
    ]
    assert [one is not None for one in found] == [True, False]
