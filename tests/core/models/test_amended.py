"""A request that a model's service refuses is asked in another way, where its API knows one."""

from dataclasses import replace

import pytest

from agent_kernel.errors import ModelRefused
from agent_kernel.models.api import Amendment, Target
from agent_kernel.models.base import ModelRequest, Notice
from agent_kernel.models.chat import ChatApi
from agent_kernel.models.client import Connection, SharedClient
from agent_kernel.models.http import MOST_AMENDMENTS, HttpModel
from agent_kernel.models.service_faults import Fault
from agent_kernel.testing import FakeOpenAI, VirtualClock, say
from agent_kernel.testing.fake_service import Scripted
from agent_kernel.testing.wire.reply import Reply, failure
from tests.core.models.model_fixtures import collect

REFUSED = Reply(
    body=b'{"error": {"message": "No tools", "code": "unsupported_parameter", "param": "tools"}}',
    status=400,
    content_type="application/json",
)
TOOLS = ({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},)
REQUEST = ModelRequest(messages=({"role": "user", "content": "Hi"},), tools=TOOLS)


class WithoutTools(ChatApi):
    """Leaves the tools out where they are refused; `always` does so again and again."""

    def __init__(self, *, always: bool = False) -> None:
        super().__init__()
        self.always = always

    def amended(self, request: ModelRequest, fault: Fault, target: Target) -> Amendment | None:
        assert target.wire_name == "fake"
        if fault.param == "tools" and (request.tools or self.always):
            return Amendment(replace(request, tools=()), "It takes no tools.", api=ChatApi())
        return None


async def answer(*script: Scripted, always: bool = False) -> tuple[list[object], FakeOpenAI, VirtualClock]:
    clock = VirtualClock()
    async with FakeOpenAI(script) as server:
        api = WithoutTools(always=always)
        model = HttpModel("fake", SharedClient(Connection(server.url, lambda: None)), api=api, clock=clock)
        try:
            return list(await collect(model, REQUEST)), server, clock
        finally:
            await model.aclose()


async def test_what_is_refused_is_asked_otherwise_at_once_and_the_user_is_capabilities() -> None:
    items, server, clock = await answer(REFUSED, say("Hi"))
    assert items[0] == Notice("It takes no tools.")
    assert items[-1] == say("Hi")
    assert ["tools" in request.body for request in server.requests] == [True, False]
    assert clock.slept == []


async def test_a_request_that_is_asked_otherwise_is_retried_as_often_as_another() -> None:
    _, server, clock = await answer(REFUSED, failure(500, times=3), say("Hi"))
    assert len(server.requests) == 5
    assert len(clock.slept) == 3


async def test_other_ways_of_asking_come_to_an_end() -> None:
    class Stubborn(ChatApi):
        def amended(self, request: ModelRequest, fault: Fault, target: Target) -> Amendment | None:
            return Amendment(request)

    async with FakeOpenAI([replace(REFUSED, times=MOST_AMENDMENTS + 1)]) as server:
        model = HttpModel("fake", SharedClient(Connection(server.url, lambda: None)), api=Stubborn())
        with pytest.raises(ModelRefused, match="No tools"):
            await collect(model, REQUEST)
        await model.aclose()
