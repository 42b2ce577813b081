"""Whatever bytes a model's service sends, however they are cut: the run ends, every call has an outcome, and the next
request is one that the service takes. The doubles are as strict as the services, and say what was wrong."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_kernel.models.base import ModelTurn
from agent_kernel.models.retry_policy import RetryPolicy
from agent_kernel.testing import calls, requested, say
from agent_kernel.testing.wire.reply import Reply, failure
from tests.core.models.model_apis import BY_NAME, WireApi, each_api
from tests.core.models.model_fixtures import model_at
from tests.core.runtime.runtime_fixtures import FunctionExecutor, stage
from tests.core.runtime.turns.fuzzing import rounds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.one_of(
    st.just('{"code": "1"}'),
    st.just("{}"),
    st.text(max_size=20),
    JSON.map(json.dumps),
    st.just('{"code": "\\ud800"}'),
    st.just('{"code": "1", "code": "2"}'),
    st.just('{"a":' * 3000 + "1" + "}" * 3000),
)
NAMES = st.sampled_from(["run_python", "look", "no_such_tool", ""]) | st.text(max_size=10)
IDS = st.sampled_from(["", "c1", "c1", "c2"]) | st.text(max_size=8)
TURNS = st.builds(
    lambda parts, text, thought: replace(
        calls(*(ModelTurn("", tool_calls=(one,)) for one in parts), text=text), reasoning=thought
    ),
    st.lists(st.builds(lambda name, raw, id_: requested(name, raw, call_id=id_), NAMES, ARGUMENTS, IDS), max_size=4),
    st.text(max_size=10),
    st.text(max_size=5),
)
DEEP = 50_000
ODD_JSON = {
    "half an emoji": rb'"\ud83d"',
    "its bytes": b'"\xed\xa0\x80"',
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "as deep as can just be read": b"[" * 900 + b"]" * 900,
    "a long number": b"9" * 5_000,
    "no number": b"NaN",
    "a name twice": b'{"a": 1, "a": 2}',
}
ODD_ARGUMENTS = ("null", '"{}"', '"null"', "", " ", "7", "[]", '{"a": 1')
"""What servers send for no arguments, or wrongly: each goes back as an object, or some of them refuse the request."""


def mutated(draw: Any, value: Any) -> Any:
    """An event in which one value, at any depth, is another one."""
    if draw(st.integers(0, 3)) == 0 or not isinstance(value, dict | list) or not value:
        return draw(JSON | ARGUMENTS)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = draw(st.sampled_from(keys))
    changed = value.copy()
    changed[key] = mutated(draw, value[key])
    return changed


@st.composite
def replies(draw: Any, api: WireApi) -> Reply:
    """An answer with odd events in it; then cut and damaged."""
    if draw(st.integers(0, 5)) == 0:
        return failure(draw(st.sampled_from([400, 401, 408, 413, 429, 500, 529])), draw(st.text(max_size=20)))
    turn = draw(TURNS)
    events: list[Any] = draw(st.sampled_from([api.events_of, api.interleaved]))(turn)
    if draw(st.booleans()):
        events = draw(st.sampled_from(list(api.changes.values())))(events)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(events)))
        odd = draw(JSON) if at == len(events) else mutated(draw, events[at])
        events = [*events[:at], odd, *events[at + draw(st.integers(0, 1)) :]]
    body = api.event_stream(events, done=draw(st.booleans()))
    if draw(st.integers(0, 3)) == 0 and body:
        at = draw(st.integers(0, len(body) - 1))
        body = body[:at] + draw(st.binary(max_size=8)) + body[at + draw(st.integers(0, 20)) :]
    return Reply(
        body=body,
        split_every=draw(st.sampled_from([None, None, 7, 64]) if len(body) < 600 else st.sampled_from([None, 64])),
        cut_after=draw(st.none() | st.integers(0, len(body))),
        content_type=draw(st.sampled_from(["text/event-stream", "text/event-stream", "application/json"])),
    )


async def converse(api: WireApi, answers: Sequence[Reply], policy: Any) -> None:
    async with api.service([*answers, say("Done.")], repeat=True) as server:
        model = model_at(server.url, wire_name="m", api=api, retry=RetryPolicy(tries=2, first_delay=0.0))
        one = await stage(model, executor=FunctionExecutor(lambda call, _: call.arguments_json), attended=False)
        for _ in range(2):
            async with asyncio.timeout(60):
                result = await one.run("Go.", policy=policy)
            assert result.run.status in ("complete", "error")
            assert result.run.error is None or result.run.error.code != "INTERNAL_ERROR", result.run.error
            assert {call.state for call in result.tool_calls} <= {"success", "error", "denied", "invalid"}
        await one.close()
        await model.aclose()
    assert server.wrong == []
    for request in server.requests if api.name == "chat" else ():
        assert_each_call_answered_once(request.body["messages"])


def assert_each_call_answered_once(messages: list[Any]) -> None:
    """The rule of every chat-completions service; breaking it makes a conversation useless from then on."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert waiting == [], f"calls without an answer before {message['role']}"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        assert len(set(waiting)) == len(waiting)
        assert all(waiting)
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert waiting == []


@each_api
@pytest.mark.parametrize("place", ["of a text", "of a number", "within the arguments", "alone"])
async def test_odd_json_of_a_service_is_no_fault_of_ours(api: WireApi, place: str) -> None:
    for value in ODD_JSON.values():
        await converse(api, [Reply(body=odd_body(api, place, value))], "allow")


def odd_body(api: WireApi, place: str, value: bytes) -> bytes:
    """An answer with an odd value in this place."""
    if place == "alone":
        return b"data: " + value + b"\n\n"
    if place == "within the arguments":
        text = value[:20_000].decode("utf-8", "replace")
        return api.body(ModelTurn(content="", tool_calls=(requested("look", text),)))
    body = api.body(ModelTurn(content="Q", tool_calls=(requested("look", '{"Q": 1}'),)))
    found = re.compile(rb'"(?:[^"\\]|\\.)*Q(?:[^"\\]|\\.)*"' if place == "of a text" else b"(?<=: )[0-9]+")
    assert found.search(body)
    return found.sub(lambda _: value, body)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_run_ends_and_leaves_no_orphans_whatever_the_model_sends(name: str) -> None:
    api = BY_NAME[name]
    odd = [
        api.streamed(ModelTurn("", "Hm.", tool_calls=(requested("look", one, call_id="c1"),))) for one in ODD_ARGUMENTS
    ]

    @example(odd, "allow")
    @given(st.lists(replies(api), min_size=1, max_size=4), st.sampled_from(["allow", "ask", "plan"]))
    @rounds(10, 800)
    def check(answers: list[Reply], policy: Any) -> None:
        asyncio.run(converse(api, answers, policy))

    check()
