"""What the tests of models share."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from agent_kernel.errors import ModelError
from agent_kernel.models.base import Model, ModelItem, ModelRequest, ModelTurn
from agent_kernel.models.catalogue import ModelList
from agent_kernel.models.client import Client
from agent_kernel.models.endpoints import OPENAI, Endpoint
from agent_kernel.models.http import HttpModel
from agent_kernel.models.retry_policy import RetryPolicy
from agent_kernel.testing import VirtualClock, call, calls
from agent_kernel.testing.fake_service import FakeService, Scripted
from tests.core.models.model_apis import CHAT, MESSAGES, WireApi

TURN = calls(call("run_python", call_id="call_1", code="naïve 🐧"), text="Let me look. 你好", usage=(11, 7))
REQUEST = ModelRequest(messages=({"role": "user", "content": "How many penguins are there?"},))
CLAUDE = "claude-sonnet-5-5"


async def collect(model: Model, request: ModelRequest = REQUEST) -> list[ModelItem]:
    return [item async for item in model.stream(request)]


async def turn_of(model: Model, request: ModelRequest = REQUEST) -> ModelTurn:
    items = await collect(model, request)
    last = items[-1]
    assert isinstance(last, ModelTurn)
    assert not any(isinstance(item, ModelTurn) for item in items[:-1])
    assert "".join(item.content for item in items[:-1] if item.type == "text") == last.content
    assert "".join(item.content for item in items[:-1] if item.type == "reasoning") == last.reasoning
    assert [item.name for item in items[:-1] if item.type == "tool_call"] == [call.name for call in last.tool_calls]
    return last


def model_at(
    url: str,
    *,
    api: WireApi = CHAT,
    wire_name: str = "fake",
    key: Callable[[], str | None] | None = None,
    clock: VirtualClock | None = None,
    others: Callable[[], Iterable[str]] = tuple,
    retry: RetryPolicy | None = None,
    **options: Any,
) -> HttpModel:
    """A model of a service at this address, which is asked in this API. `options` are of its endpoint."""
    endpoint = Endpoint(OPENAI, url, api_key=key or (lambda: api.key), api=api.name, **options)
    client = Client(endpoint, others=others, clock=clock or VirtualClock())
    return HttpModel(wire_name, ModelList(client), retry=retry)


@asynccontextmanager
async def connected(
    *script: Scripted,
    api: WireApi = CHAT,
    **options: Any,
) -> AsyncIterator[tuple[FakeService, HttpModel]]:
    """A fake server and a model that talks to it over a real socket. A request that the official client could not have
    sent fails the test."""
    async with api.service(script) as server:
        model = model_at(server.url, api=api, **options)
        try:
            yield server, model
        finally:
            await model.aclose()


def speaking(*script: Scripted, wire_name: str = CLAUDE, **options: Any) -> AbstractAsyncContextManager[Any]:
    """As `connected`, with a fake of Anthropic's service."""
    return connected(*script, api=MESSAGES, wire_name=wire_name, **options)


async def error_of(
    *script: Scripted, api: WireApi = CHAT, clock: VirtualClock | None = None, **options: Any
) -> ModelError:
    async with connected(*script, api=api, clock=clock, **options) as (_, model):
        with pytest.raises(ModelError) as caught:
            await collect(model)
    return caught.value
