"""A model that is asked in Anthropic's Messages API, and what it was asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agent_kernel.models.anthropic import MessagesApi
from agent_kernel.models.client import Connection, SharedClient
from agent_kernel.models.http import HttpModel
from agent_kernel.testing import VirtualClock
from agent_kernel.testing.fake_anthropic import FAKE_ANTHROPIC_KEY, FakeAnthropic
from agent_kernel.testing.fake_service import Scripted

CLAUDE = "claude-sonnet-5-5"


@asynccontextmanager
async def speaking(
    *script: Scripted, wire_name: str = CLAUDE, clock: VirtualClock | None = None, **options: Any
) -> AsyncIterator[tuple[FakeAnthropic, HttpModel]]:
    """A fake of Anthropic's service and a model that talks to it over a real socket."""
    async with FakeAnthropic(script) as server:
        options.setdefault("base_url", server.address)
        options.setdefault("key", lambda: FAKE_ANTHROPIC_KEY)
        client = SharedClient(Connection(**options))
        model = HttpModel(wire_name, client, api=MessagesApi(), clock=clock or VirtualClock())
        try:
            yield server, model
        finally:
            await model.aclose()
