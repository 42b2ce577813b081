"""The Messages API: what is asked, what is made of an answer, and what is done with what comes back."""

from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.models.base import ModelRequest, ModelTurn, Notice
from agent_kernel.protocol.vocabulary import Effort
from agent_kernel.testing import say
from agent_kernel.testing.fake_anthropic import FAKE_ANTHROPIC_KEY
from agent_kernel.testing.wire.messages import (
    refusal,
)
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.model_fixtures import REQUEST, collect, speaking, turn_of

TOOL = {"type": "function", "function": {"name": "run_python", "parameters": {"type": "object"}}}


async def test_the_request_says_what_the_service_needs_and_nothing_of_other_providers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: gate-secret")
    async with speaking(say("Hi"), ambient=True) as (server, model):
        await turn_of(model, ModelRequest(REQUEST.messages, (TOOL,)))
    (request,) = server.requests
    assert request.path == "/v1/messages"
    assert request.headers["authorization"] == f"Bearer {FAKE_ANTHROPIC_KEY}"
    assert request.headers["anthropic-version"] == "2026-10-21"
    assert request.headers["user-agent"].startswith("agent-kernel/")
    assert not [name for name in request.headers if name.startswith(("openai", "x-"))]
    assert "secret" not in str(request.headers)
    mark = {"cache_control": {"type": "ephemeral"}}
    assert request.body == {
        "model": "claude-sonnet-5-5",
        "max_tokens": 64_000,
        "stream": True,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "tools": [{"name": "run_python", "input_schema": {"type": "object"}, **mark}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": REQUEST.messages[0]["content"], **mark}]}],
    }


async def ask(model: Any, effort: Effort | None) -> list[Any]:
    return list(await collect(model, replace(REQUEST, effort=effort)))


@pytest.mark.parametrize(
    ("wire_name", "effort", "thinking", "output_config"),
    [
        ("claude-sonnet-5-5", "low", {"type": "adaptive", "display": "summarized"}, {"effort": "low"}),
        ("claude-haiku-4-5-20251001", None, None, None),
        ("qwen3-coder", "medium", None, {"effort": "medium"}),
    ],
)
async def test_effort_is_asked_for_as_the_model_has_it(
    wire_name: str, effort: Effort | None, thinking: Any, output_config: Any
) -> None:
    async with speaking(say("Hi"), wire_name=wire_name) as (server, model):
        await ask(model, effort)
    body = server.requests[0].body
    assert (body.get("thinking"), body.get("output_config")) == (thinking, output_config)


def bad(message: str) -> Reply:
    return refusal(400, "invalid_request_error", message)


async def test_thinking_is_left_out_where_the_model_does_not_take_it() -> None:
    said = bad("adaptive thinking is not supported on this model")
    async with speaking(said, say("1"), say("2"), wire_name="claude-new-9") as (server, model):
        await ask(model, None)
        await ask(model, None)
    assert ["thinking" in request.body for request in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("message", "then"),
    [
        ("max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude-x", 8192),
        ("input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000, decrease input length", 10_000),
        ("'max_tokens' is too large", 16_000),
    ],
)
async def test_an_answer_is_as_long_as_the_service_allows(message: str, then: int) -> None:
    async with speaking(bad(message), say("1"), say("2")) as (server, model):
        await turn_of(model)
        await turn_of(model)
    assert [request.body["max_tokens"] for request in server.requests] == [64_000, then, then]


def thinking_turn(text: str, thought: str) -> ModelTurn:
    return replace(say(text), reasoning=thought)


def answered(turn: ModelTurn) -> dict[str, Any]:
    """The turn as a conversation keeps it."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.content}
    return message if turn.provider is None else {**message, "provider": turn.provider.to_wire()}


def thinking_sent(server: Any) -> list[list[str]]:
    blocks = [[block for message in one.body["messages"] for block in message["content"]] for one in server.requests]
    return [[block["thinking"] for block in sent if block["type"] == "thinking"] for sent in blocks]


async def test_thinking_that_no_longer_fits_is_left_out_said_and_not_sent_again() -> None:
    """The double refuses it as the service does: the conversation before it is another one now."""
    async with speaking(thinking_turn("One.", "Hm"), say("Two."), say("Three.")) as (server, model):
        turn = await turn_of(model)
        shorter = [{"role": "user", "content": "How many?"}, answered(turn), {"role": "user", "content": "And then?"}]
        first = await collect(model, ModelRequest(shorter))
        second = await collect(model, ModelRequest(shorter))
    assert isinstance(first[0], Notice)
    assert "no longer accepts what it thought earlier" in first[0].content
    assert not any(isinstance(item, Notice) for item in second)
    assert thinking_sent(server) == [[], ["Hm"], [], []]
