"""Chat Completions: what only its servers do, what is made of it, and what goes back in which form."""

import json
import re
from typing import Any

import pytest

from agent_kernel.models.api import Api
from agent_kernel.models.base import (
    ModelItem,
    ModelRequest,
    ModelTurn,
    RequestedCall,
    ToolCallDelta,
    WireMessage,
)
from agent_kernel.models.chat import ChatApi
from agent_kernel.models.fallbacks import Fallbacks
from agent_kernel.models.provider_items import OpaqueItem, ProviderItems
from agent_kernel.models.service_faults import status_fault
from agent_kernel.testing import say
from agent_kernel.testing.wire.chat import Chunk, delta, event_stream
from tests.core.models import test_answer
from tests.core.models.model_apis import CHAT
from tests.core.models.model_fixtures import REQUEST, connected, turn_of


def read(body: bytes) -> list[ModelItem]:
    return test_answer.read(CHAT, body)


def turn_from(*chunks: Chunk, **options: Any) -> Any:
    return read(event_stream(chunks, **options))[-1]


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


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("eos", "stop"), ("max_tokens", "length")],
)
def test_finish_reasons_of_all_servers_are_understood(sent: str, kept: str) -> None:
    assert turn_from(delta(content="Hi"), delta(sent)).finish_reason == kept


def piece(name: str, arguments: Any, index: int | None = None, call_id: str = "") -> dict[str, Any]:
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


def fields_of(turn: ModelTurn) -> dict[str, Any]:
    """The fields of the message that the service wants back."""
    items = turn.provider.items if turn.provider is not None else ()
    return {name: value for item in items if isinstance(item, OpaqueItem) for name, value in item.item.items()}


def text(piece: str, index: object = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": piece, "index": index, "format": "anthropic-claude-v1", **fields}


def encrypted(data: str, index: object = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning.encrypted", "data": data, "index": index, **fields}


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        # Pieces of one entry, the signature last; interleaved entries keep the order in which they began.
        ([[text("Let")], [text(" me")], [text("", signature="c2ln")]], [text("Let me", signature="c2ln")]),
        ([[text("a", 1)], [text("b", 2)], [text("c", 1)]], [text("ac", 1), text("b", 2)]),
        ([[text("a"), encrypted("e1")], [encrypted("e2")]], [text("a"), encrypted("e1e2")]),
        # Gemini: calls in parallel, each with a signature of its own under one index.
        (
            [[encrypted("e1", id="a")], [encrypted("e2", id="b")]],
            [encrypted("e1", id="a"), encrypted("e2", id="b")],
        ),
        # What is no list of objects.
        ([[], {"type": "reasoning.text"}, "Hm", 5, [None, "Hm", ["Hm"]]], None),
    ],
)
def test_reasoning_details_go_back_as_one_list(sent: list[Any], kept: list[Any] | None) -> None:
    turn = turn_from(*(delta(reasoning_details=piece) for piece in sent), delta(content="Yes"), delta("stop"))
    assert fields_of(turn).get("reasoning_details") == kept


@pytest.mark.parametrize(
    ("deltas", "reasoning", "kept"),
    [
        ([{"reasoning_content": "Hm"}, {"reasoning_content": "m"}], "Hmm", {"reasoning_content": "Hmm"}),
        ([{"reasoning_content": ""}], "", {"reasoning_content": ""}),
        ([{"reasoning": "Hm"}], "Hm", {"reasoning": "Hm"}),
        # Claude behind LiteLLM: a block without its signature would be refused.
        (
            [{"thinking_blocks": [{"type": "thinking", "thinking": one}]} for one in ("H", "m")]
            + [{"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "c2ln"}, {"type": "thinking"}]}],
            "",
            {"thinking_blocks": [{"type": "thinking", "thinking": "Hm", "signature": "c2ln"}]},
        ),
        ([{"reasoning": "Hm", "reasoning_content": "Hm"}], "Hm", {"reasoning_content": "Hm"}),
        ([{"reasoning": "Hm", "reasoning_details": [text("Hm")]}], "Hm", {"reasoning_details": [text("Hm")]}),
    ],
)
def test_reasoning_is_kept_apart_and_goes_back_under_the_name_under_which_it_came(
    deltas: list[dict[str, Any]], reasoning: str, kept: dict[str, Any]
) -> None:
    turn = turn_from(*(delta(**one) for one in deltas), delta(content="Yes"), delta("stop"))
    assert (turn.content, turn.reasoning, fields_of(turn)) == ("Yes", reasoning, kept)


# Arguments and calls that were sent more than once.

WHOLE = '{"n": 1, "s": "ö"}'
AGAIN = '{"s":"\\u00f6","n":1}'


@pytest.mark.parametrize(
    "pieces",
    [
        [WHOLE, AGAIN],
        [WHOLE, json.dumps(WHOLE)],
        [json.dumps(AGAIN), "\n", WHOLE, WHOLE],
    ],
)
@pytest.mark.parametrize("again", ["f", ""])
def test_arguments_that_were_sent_again_are_one_call(pieces: list[Any], again: str) -> None:
    first, *later = pieces
    [got] = calls_from([piece("f", first, 0, "c")], *([piece(again, one, 0, again and "c")] for one in later))
    assert json.loads(got.arguments) == json.loads(WHOLE)


@pytest.mark.parametrize("pieces", [[WHOLE, '{"n": 2}'], [WHOLE, '{"n"'], [WHOLE, "5"]])
def test_different_objects_for_one_call_stay_as_they_came(pieces: list[str]) -> None:
    [got] = calls_from(*([piece("f", one, 0, "c")] for one in pieces))
    assert got.arguments == "".join(pieces)


@pytest.mark.parametrize("second", [WHOLE, AGAIN, ""])
def test_one_id_at_two_indexes_is_one_call_if_the_arguments_are_the_same(second: str) -> None:
    pieces = [piece("f", WHOLE, 0, "a"), piece("f", second, 1, "a"), piece("f", "{}", 2, "b")]
    items = read(event_stream([*(delta(tool_calls=[one]) for one in pieces), delta("tool_calls")]))
    assert [one.arguments for one in items[-1].tool_calls] == [WHOLE, "{}"]
    begun = [(item.index, item.id) for item in items if isinstance(item, ToolCallDelta)]
    assert begun == [(0, "a"), (1, "b")]  # no card for what may be the same call


# What is sent.

REFUSED_IDS = [
    "Tool call id was call_0fypS1hVX but must be a-z, A-Z, 0-9, with a length of 9.",
    "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got 83.",
    "Value 'a:b' at 'messages.2.member.content.1.member.toolUse.toolUseId' failed to satisfy constraint: Member must "
    "satisfy regular expression pattern: [a-zA-Z0-9_-]+",
]


def sent_by(api: Api, *messages: WireMessage) -> list[WireMessage]:
    return list(api.body(ModelRequest(messages))["messages"])


def asked(*ids: str, text: str = "") -> WireMessage:
    calls = [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def answered(*ids: str) -> list[WireMessage]:
    return [{"role": "tool", "tool_call_id": one, "content": one} for one in ids]


@pytest.mark.parametrize("said", REFUSED_IDS)
def test_ids_are_short_from_then_on_where_the_service_says_so(said: str) -> None:
    fallbacks = Fallbacks("fake", "http://here", "chat")
    api = fallbacks.api
    odd = ["toolu_01A", "functions.f:0", "x" * 70, "a", "AbCd12345"]
    messages = [asked(*odd), *answered(*odd)]
    assert [call["id"] for call in sent_by(api, *messages)[0]["tool_calls"]] == odd
    fault = status_fault(400, {"message": said})
    assert fallbacks.amended(ModelRequest(messages), fault) is not None
    assert fallbacks.amended(ModelRequest(messages), fault) is None
    first, *results = sent_by(api, *messages)
    ids = [call["id"] for call in first["tool_calls"]]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", one) for one in ids)
    assert ids == [result["tool_call_id"] for result in results]
    assert len(set(ids)) == len(odd)
    assert ids[-1] == "AbCd12345"
    assert sent_by(api, *messages, asked("more"), *answered("more"))[:6] == [first, *results]


def test_a_service_may_change_its_mind_about_what_it_wants_back() -> None:
    fallbacks = Fallbacks("fake", "http://here", "chat")
    api = fallbacks.api
    thought = ProviderItems("chat", api.origin, (OpaqueItem({"reasoning_content": "Hm"}),))
    messages = [asked("a") | {"provider": thought.to_wire()}, asked("b")]
    unknown = status_fault(400, {"message": "Unknown parameter", "param": "messages[0].reasoning_content"})
    wanted = status_fault(400, {"message": "Missing `reasoning_content` field in the assistant message at index 1."})
    for fault, kept in ((None, ["Hm", None]), (unknown, [None, None]), (wanted, ["Hm", ""])):
        assert fault is None or fallbacks.amended(ModelRequest(messages), fault) is not None
        assert [one.get("reasoning_content") for one in sent_by(api, *messages)] == kept


@pytest.mark.parametrize("blank", ["", " \n\t", "\u00a0"])
def test_nothing_empty_is_sent(blank: str) -> None:
    got = sent_by(
        ChatApi("fake", "http://here"),
        {"role": "system", "content": blank},
        {"role": "user", "content": "Hi"},
        asked("a", text=blank),
        {"role": "tool", "tool_call_id": "a", "content": blank},
        {"role": "assistant", "content": blank},
    )
    assert got == [
        {"role": "user", "content": "Hi"},
        asked("a") | {"content": None},
        {"role": "tool", "tool_call_id": "a", "content": "(no output)"},
    ]


def test_an_answer_that_the_server_does_not_stream_is_read_whole() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "run_python", "arguments": '{"code":"1"}'}}
    said = {"role": "assistant", "content": "Look.", "tool_calls": [call]}
    body = json.dumps({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": said}]})
    turn: Any = read(body.encode())[-1]
    assert turn.content == "Look."
    assert [(one.name, one.arguments) for one in turn.tool_calls] == [("run_python", '{"code":"1"}')]
