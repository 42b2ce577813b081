"""Which MCP servers there are, how they are reached, and how they are shown."""

import hashlib
import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from tornado.httpclient import AsyncHTTPClient

from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel_server.mcp_tools import servers
from agent_kernel_server.mcp_tools import tool_server as mcp_server
from tests.ports import free_port
from tests.server.client import Api, Kernel
from tests.server.mcp_servers import *  # noqa: F403 -- fixtures, which pytest finds by their names
from tests.server.mcp_servers import PEER, approved, ready, run_calls, running, states, until_unknown
from tests.server.serving import Server
from tests.waiting import look_until, until


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
    api: Api, server: Server, model: FakeOpenAI, folder: Path, monkeypatch: pytest.MonkeyPatch
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
    assert (await api("POST", "approvals", waiting["approval_id"], body={"approved": True}))[0] == 409
    await ready(api)
    with monkeypatch.context() as patch:
        patch.setattr(servers, "read_folder_file", None)  # the requests of a run read no file
        late = await server.service.mcp_servers.offered(None, wait=False)
    assert "ours__add" in {tool.name for tool in late}
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
