"""The Chat Completions API: what only its servers do, and what is made of it."""

from typing import Any

import pytest

from agent_kernel.models.base import ModelItem, ModelRequest, ModelTurn, RequestedCall, TokenUsage
from agent_kernel.models.no_answer import filtered, malformed_call, refused
from agent_kernel.testing import say
from agent_kernel.testing.wire.chat import Chunk, delta, event_stream, usage_chunk
from tests.core.models import test_answer
from tests.core.models.model_apis import CHAT
from tests.core.models.model_fixtures import REQUEST, connected, turn_of


def read(body: bytes) -> list[ModelItem]:
    return test_answer.read(CHAT, body)


def turn_from(*chunks: Chunk, **options: Any) -> ModelTurn:
    turn = read(event_stream(chunks, **options))[-1]
    assert isinstance(turn, ModelTurn)
    return turn


def calls_from(*pieces: Any, finish: str | None = "tool_calls") -> tuple[RequestedCall, ...]:
    """The calls of an answer, given the `tool_calls` list of each chunk."""
    return turn_from(*(delta(tool_calls=piece) for piece in pieces), delta(finish)).tool_calls


async def test_the_request_asks_for_usage_and_carries_the_tools() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    async with connected(say("Hi"), say("Hi")) as (server, model):
        await turn_of(model, ModelRequest(REQUEST.messages, (tool,)))
        await turn_of(model)
    first, second = server.requests
    assert first.body == {
        "model": "fake",
        "messages": list(REQUEST.messages),
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [tool],
    }
    assert "tools" not in second.body


def test_empty_choices_and_null_usage_are_passed_over() -> None:
    filter_results = {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    hello = {**delta(content="Hi"), "usage": None}
    turn = turn_from(filter_results, hello, delta("stop"), usage_chunk(5, 6), {"choices": None, "usage": None})
    assert turn == ModelTurn("Hi", usage=TokenUsage(5, 6))


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("stop", "stop"), ("eos", "stop"), ("length", "length"), ("max_tokens", "length"), ("content_filter",) * 2],
)
def test_finish_reasons_of_all_servers_are_understood(sent: str, kept: str) -> None:
    assert turn_from(delta(content="Hi"), delta(sent)).finish_reason == kept


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_under_either_name(field: str) -> None:
    turn = turn_from(delta(**{field: "Hm"}), delta(content="Yes"), delta("stop"))
    assert (turn.reasoning, turn.content) == ("Hm", "Yes")


def test_content_as_a_list_of_parts_is_text_and_thinking() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    turn = turn_from(delta(content=[thinking, {"type": "text", "text": "Yes"}]), delta("stop"))
    assert (turn.reasoning, turn.content) == ("Hm", "Yes")


def test_a_refusal_is_no_answer_and_keeps_its_words() -> None:
    turn = turn_from(delta(refusal="I can"), delta(refusal="'t."), delta("stop"))
    assert (turn.content, turn.failure) == ("", refused("I can't."))


@pytest.mark.parametrize(
    ("sent", "failure"),
    [
        ({"finish_reason": "content_filter"}, filtered()),
        ({"finish_reason": "content_filter: SAFETY"}, filtered("content_filter: SAFETY")),
        ({"finish_reason": "SAFETY"}, filtered("SAFETY")),
        (
            {"finish_reason": "content_filter", "native_finish_reason": "PROHIBITED_CONTENT"},
            filtered("PROHIBITED_CONTENT"),
        ),
        ({"finish_reason": "sensitive"}, filtered("sensitive")),
        (
            {"finish_reason": "function_call_filter: MALFORMED_FUNCTION_CALL"},
            malformed_call("function_call_filter: MALFORMED_FUNCTION_CALL"),
        ),
        (
            {"finish_reason": "error", "native_finish_reason": "MALFORMED_FUNCTION_CALL"},
            malformed_call("MALFORMED_FUNCTION_CALL"),
        ),
    ],
)
def test_an_answer_that_its_service_withholds_is_none_though_it_has_words(sent: Chunk, failure: str) -> None:
    end = delta()
    assert turn_from(delta(content="Hi"), end | {"choices": [end["choices"][0] | sent]}).failure == failure


def piece(name: str, arguments: str, index: int | None = None, call_id: str = "") -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return place | ({"id": call_id} if call_id else {}) | {"function": {"name": name, "arguments": arguments}}


ONE, TWO = piece("f", '{"p": 1}', call_id="c1"), piece("f", '{"p": 2}', call_id="c2")


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        ([[piece("f", part, 0, "c1")] for part in ("", '{"x', '": 1', "}", "")], [("c1", "f", '{"x": 1}')]),
        # A new id in every chunk.
        ([[piece("f", '{"x', 0, "c0")], [piece("", '": 1}', 0, "c1")]], [("c0", "f", '{"x": 1}')]),
        # Index zero for every call (Ollama, issue 15457), or none (Gemini, and Ollama before 0.4.7).
        ([[ONE | {"index": 0}], [TWO | {"index": 0}]], [("c1", "f", '{"p": 1}'), ("c2", "f", '{"p": 2}')]),
        ([[ONE | {"index": 0}, TWO | {"index": 0}]], [("c1", "f", '{"p": 1}'), ("c2", "f", '{"p": 2}')]),
        ([[ONE, TWO]], [("c1", "f", '{"p": 1}'), ("c2", "f", '{"p": 2}')]),
        ([[ONE], [TWO]], [("c1", "f", '{"p": 1}'), ("c2", "f", '{"p": 2}')]),
        # Pieces without index belong to the call at their place.
        (
            [[piece("f", '{"p'), piece("g", '{"q')], [piece("", '": 1}'), piece("", '": 2}')]],
            [("", "f", '{"p": 1}'), ("", "g", '{"q": 2}')],
        ),
        (
            [[piece("run_", "", 0, "c")], [piece("python", "", 0, "c")], [piece("", "{}", 0)]],
            [("c", "run_python", "{}")],
        ),
        ([[{"index": 0, "id": "c", "function": {"name": "f", "parameters": {"n": 1}}}]], [("c", "f", '{"n": 1}')]),
        ([[{"id": "c", "name": "f", "arguments": '{"n": 1}'}]], [("c", "f", '{"n": 1}')]),
    ],
)
def test_calls_are_read_in_whatever_pieces_servers_send_them(
    chunks: list[list[dict[str, Any]]], calls: list[tuple[str, str, str]]
) -> None:
    assert calls_from(*chunks) == tuple(RequestedCall(*call) for call in calls)
