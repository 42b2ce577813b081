"""Test doubles of the model, the only thing that costs money. Everything else is tested for real.

`ScriptedModel`     a model in this process that plays written turns, and fails on unexpected and unconsumed ones
`FakeOpenAI`        a real HTTP server that speaks Chat Completions and Responses, with the faults of real servers
`FakeAnthropic`     the same for Anthropic's Messages API, as strict as the service
`say, call, calls`  turns, for all of them
`record`            wraps a real model and records its answers, for `replay:PATH`
`VirtualClock`      a clock for retries that a test advances
`approve_all, deny_all, script`  decisions for headless runs
`pytest_plugin`     what the package brings to pytest: recordings and pictures under `pytest --nbval`

Names are imported on first use, because pytest loads the plugin in every project.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_kernel.approvals.scripted import approve_all, deny_all, script
    from agent_kernel.models.recordings.recorder import record
    from agent_kernel.testing.fake_anthropic import FakeAnthropic
    from agent_kernel.testing.fake_openai import FakeOpenAI
    from agent_kernel.testing.scripted_model import (
        ScriptedModel,
        ScriptMismatch,
        VirtualClock,
        call,
        calls,
        requested,
        say,
    )  # fmt: skip

__all__ = [
    "FakeAnthropic", "FakeOpenAI", "ScriptMismatch", "ScriptedModel", "VirtualClock", "approve_all", "call", "calls",
    "deny_all", "record", "requested", "say", "script",
]  # fmt: skip
_MODULES = {
    "agent_kernel.approvals.scripted": "approve_all deny_all script",
    "agent_kernel.models.recordings.recorder": "record",
    "agent_kernel.testing.fake_anthropic": "FakeAnthropic",
    "agent_kernel.testing.fake_openai": "FakeOpenAI",
    "agent_kernel.testing.scripted_model": "ScriptMismatch ScriptedModel VirtualClock call calls requested say",
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
