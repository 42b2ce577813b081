"""A request that a model's service refuses is asked in another way, where its API knows one."""

from dataclasses import replace

import pytest

from agent_kernel.errors import ModelRefused
from agent_kernel.models.api import Amendment
from agent_kernel.models.base import ModelRequest, Notice
from agent_kernel.models.chat import ChatApi
from agent_kernel.models.fallbacks import APIS
from agent_kernel.models.http import MOST_AMENDMENTS
from agent_kernel.models.service_faults import Fault
from agent_kernel.testing import VirtualClock, say
from agent_kernel.testing.fake_service import FakeService, Scripted
from agent_kernel.testing.wire.reply import Reply, failure
from tests.core.models.model_fixtures import collect, connected

REFUSED = Reply(
    body=b'{"error": {"message": "No tools", "code": "unsupported_parameter", "param": "tools"}}',
    status=400,
    content_type="application/json",
)
TOOLS = ({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},)
REQUEST = ModelRequest(messages=({"role": "user", "content": "Hi"},), tools=TOOLS)


class WithoutTools(ChatApi):
    """Leaves the tools out where they are refused."""

    def amended(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        assert self.wire_name == "fake"
        if fault.param == "tools" and request.tools:
            return Amendment(replace(request, tools=()), "It takes no tools.")
        return None


@pytest.fixture
def without_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(APIS, "chat", WithoutTools)


async def answer(*script: Scripted) -> tuple[list[object], FakeService, VirtualClock]:
    clock = VirtualClock()
    async with connected(*script, clock=clock) as (server, model):
        return list(await collect(model, REQUEST)), server, clock


async def test_what_is_refused_is_asked_otherwise_at_once_and_the_user_is_told(without_tools: None) -> None:
    items, server, clock = await answer(REFUSED, say("Hi"))
    assert items[0] == Notice("It takes no tools.")
    assert items[-1] == say("Hi")
    assert ["tools" in request.body for request in server.requests] == [True, False]
    assert clock.slept == []


async def test_a_request_that_is_asked_otherwise_is_retried_as_often_as_another(without_tools: None) -> None:
    _, server, clock = await answer(REFUSED, failure(500, times=3), say("Hi"))
    assert len(server.requests) == 5
    assert len(clock.slept) == 3


async def test_other_ways_of_asking_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(ChatApi):
        def amended(self, request: ModelRequest, fault: Fault) -> Amendment | None:
            return Amendment(request)

    monkeypatch.setitem(APIS, "chat", Stubborn)
    async with connected(replace(REFUSED, times=MOST_AMENDMENTS + 1)) as (_, model):
        with pytest.raises(ModelRefused, match="No tools"):
            await collect(model, REQUEST)
