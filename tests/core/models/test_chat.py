"""The Chat Completions API: what only its servers do, and what is made of it."""

from typing import Any

import pytest

from agent_kernel.models.base import ModelItem, ModelRequest, ModelTurn, RequestedCall, TokenUsage
from agent_kernel.models.no_answer import filtered, malformed_call, refused
from agent_kernel.models.service_faults import Fault
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


def test_id_and_name_repeated_in_every_chunk_is_one_call() -> None:
    pieces = [
        [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": part}}]
        for part in ("", '{"x', '": 1', "}", "")
    ]
    assert calls_from(*pieces) == (RequestedCall("c1", "f", '{"x": 1}'),)


def test_a_new_id_in_every_chunk_is_one_call() -> None:
    first = [{"index": 0, "id": "c0", "function": {"name": "f", "arguments": '{"x'}}]
    rest = [[{"index": 0, "id": f"c{n}", "function": {"arguments": part}}] for n, part in enumerate(('": 1', "}"), 1)]
    assert calls_from(first, *rest) == (RequestedCall("c0", "f", '{"x": 1}'),)


def test_index_zero_for_every_call_is_several_calls() -> None:
    """Ollama, issue 15457."""
    first = [{"index": 0, "id": "c1", "function": {"name": "write", "arguments": '{"p": 1}'}}]
    second = [{"index": 0, "id": "c2", "function": {"name": "write", "arguments": '{"p": 2}'}}]
    assert [one.arguments for one in calls_from(first, second)] == ['{"p": 1}', '{"p": 2}']
    both_at_once = calls_from([*first, *second])
    assert [(one.id, one.arguments) for one in both_at_once] == [("c1", '{"p": 1}'), ("c2", '{"p": 2}')]


def test_whole_calls_without_index_are_several_calls() -> None:
    """Gemini, and Ollama before 0.4.7."""
    one = {"id": "c1", "function": {"name": "f", "arguments": '{"p": 1}'}}
    two = {"id": "c2", "function": {"name": "f", "arguments": '{"p": 2}'}}
    for got in (calls_from([one, two]), calls_from([one], [two])):
        assert [(call.id, call.arguments) for call in got] == [("c1", '{"p": 1}'), ("c2", '{"p": 2}')]


def test_pieces_without_index_go_to_the_call_at_their_position() -> None:
    start = [{"function": {"name": "f", "arguments": '{"p'}}, {"function": {"name": "g", "arguments": '{"q'}}]
    rest = [{"function": {"arguments": '": 1}'}}, {"function": {"arguments": '": 2}'}}]
    assert [(one.name, one.arguments) for one in calls_from(start, rest)] == [("f", '{"p": 1}'), ("g", '{"q": 2}')]


def test_a_name_that_comes_in_pieces_is_joined() -> None:
    pieces = [[{"index": 0, "id": "c", "function": {"name": part}}] for part in ("run_", "python")]
    assert calls_from(*pieces, [{"index": 0, "function": {"arguments": "{}"}}])[0].name == "run_python"


def test_parameters_stand_in_for_arguments() -> None:
    got = calls_from([{"index": 0, "id": "c", "function": {"name": "f", "parameters": {"n": 1}}}])
    assert got == (RequestedCall("c", "f", '{"n": 1}'),)


def test_fields_beside_function_are_understood() -> None:
    assert calls_from([{"id": "c", "name": "f", "arguments": '{"n": 1}'}]) == (RequestedCall("c", "f", '{"n": 1}'),)


def test_the_old_function_call_is_a_call() -> None:
    pieces = [{"name": "f", "arguments": ""}, {"arguments": '{"n"'}, {"arguments": ": 1}"}]
    turn = turn_from(*(delta(function_call=piece) for piece in pieces), delta("function_call"))
    assert turn.tool_calls == (RequestedCall("", "f", '{"n": 1}'),)


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        ({"message": "Slow down", "code": "429"}, 429, True),
        ({"message": "Bad", "type": "invalid_request_error", "code": None}, 400, False),
        ("Something broke", None, True),
        ({"message": "Filtered", "code": "content_filter"}, None, False),
    ],
)
def test_an_error_object_in_the_stream_is_an_error(error: object, status: int | None, retry: bool) -> None:
    with pytest.raises(Fault) as caught:
        read(event_stream([delta(content="Hel"), {"error": error}]))
    assert (caught.value.status, caught.value.retry) == (status, retry)
    assert caught.value.detail in ("Slow down", "Bad", "Something broke", "Filtered")
