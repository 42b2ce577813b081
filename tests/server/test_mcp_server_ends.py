"""Agents outside when rights, sessions, servers and kernels end or begin again."""

import asyncio
from typing import Any

import pytest
from jupyter_core.utils import ensure_async
from jupyter_server.auth import Authorizer, IdentityProvider, User
from mcp.shared.exceptions import MCPError
from tornado.httpclient import HTTPClientError

from agent_kernel_server.mcp_server import offered as mcp_server
from tests.server.client import Api
from tests.server.mcp_client import *  # noqa: F403 -- its fixture, which pytest finds by its name
from tests.server.mcp_client import connected, handle_in, text_of
from tests.server.serving import Server
from tests.waiting import until

pytestmark = pytest.mark.kernel


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
