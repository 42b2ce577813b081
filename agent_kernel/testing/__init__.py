"""Test doubles of the only thing that costs money: the model. Everything else is tested for real.

`ScriptedModel`     a model in this process that says written turns, and fails on unexpected and on unconsumed ones
`FakeOpenAI`        a real HTTP server that speaks Chat Completions and Responses, with every fault that servers have
`FakeAnthropic`     the same for Anthropic's Messages API, as strict as the service
`say, call, calls`  turns, for both of them
`record_cassette`   wraps a real model and writes what it says as a cassette, to be played with `replay:PATH`
`VirtualClock`      time for retries that a test moves
`approve_all, deny_all, script`  decisions for runs that nobody watches
"""

from typing import TYPE_CHECKING, Any

from agent_kernel.approvals.scripted import approve_all, deny_all, script
from agent_kernel.models.recorder import record_cassette
from agent_kernel.testing.clock import VirtualClock
from agent_kernel.testing.scripted_model import ScriptedModel, ScriptMismatch
from agent_kernel.testing.turns import call, calls, requested, say

if TYPE_CHECKING:
    from agent_kernel.testing.fake_anthropic import FakeAnthropic
    from agent_kernel.testing.fake_openai import FakeOpenAI

__all__ = [
    "FakeAnthropic",
    "FakeOpenAI",
    "ScriptMismatch",
    "ScriptedModel",
    "VirtualClock",
    "approve_all",
    "call",
    "calls",
    "deny_all",
    "record_cassette",
    "requested",
    "say",
    "script",
]


def __getattr__(name: str) -> Any:
    if name == "FakeOpenAI":  # aiohttp takes a sixth of a second to import
        from agent_kernel.testing.fake_openai import FakeOpenAI

        return FakeOpenAI
    if name == "FakeAnthropic":
        from agent_kernel.testing.fake_anthropic import FakeAnthropic

        return FakeAnthropic
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
