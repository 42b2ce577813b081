"""Whatever bytes a model's service sends, however they are cut: the run ends, every call has an outcome, and the next
request holds one answer for each call, in order, and no other."""

import asyncio
import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agent_kernel.models.base import ModelTurn
from agent_kernel.models.resolver import Endpoint, ModelResolver
from agent_kernel.models.retry_policy import RetryPolicy
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.vocabulary import ApiName
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.testing import FakeOpenAI, calls, requested, say
from agent_kernel.testing.wire.chat import chunks_of, event_stream, streamed
from agent_kernel.testing.wire.reply import Reply, failure
from tests.core.runtime.runtime_fixtures import LOOK, RUN_PYTHON, FunctionExecutor
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
    lambda parts, text: calls(*(ModelTurn("", tool_calls=(one,)) for one in parts), text=text),
    st.lists(st.builds(lambda name, raw, id_: requested(name, raw, call_id=id_), NAMES, ARGUMENTS, IDS), max_size=4),
    st.text(max_size=10),
)
ODD_PIECES = st.fixed_dictionaries(
    {},
    optional={
        "index": st.none() | st.integers(-1, 3) | st.text(max_size=2),
        "id": JSON,
        "type": JSON,
        "function": JSON | st.fixed_dictionaries({}, optional={"name": JSON | NAMES, "arguments": JSON | ARGUMENTS}),
    },
)
HALF = "\\ud800"
"""As JSON escapes it: half of a surrogate pair, which neither SQLite nor a WebSocket can hold."""
HALF_CHARACTERS = st.sampled_from(
    [
        f'{{"content": "{HALF}"}}',
        f'{{"reasoning_content": "{HALF}"}}',
        f'{{"tool_calls": [{{"id": "{HALF}", "function": {{"name": "look", "arguments": "{{}}"}}}}]}}',
        f'{{"tool_calls": [{{"id": "c1", "function": {{"name": "{HALF}", "arguments": "{{}}"}}}}]}}',
        f'{{"tool_calls": [{{"id": "c1", "function": {{"name": "look", "arguments": "{HALF}"}}}}]}}',
        f'{{"tool_calls": [{{"id": "c1", "function": {{"name": "run_python", "arguments": {{"code": "{HALF}"}}}}}}]}}',
    ]
).map(lambda delta: f'data: {{"choices": [{{"index": 0, "delta": {delta}}}]}}\n\ndata: [DONE]\n\n'.encode())
ODD_CHUNKS = st.one_of(
    JSON,
    st.fixed_dictionaries({"choices": JSON}),
    st.fixed_dictionaries(
        {
            "choices": st.lists(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "index": JSON,
                        "delta": JSON
                        | st.fixed_dictionaries(
                            {},
                            optional={
                                "content": JSON,
                                "reasoning_content": JSON,
                                "tool_calls": JSON | st.lists(ODD_PIECES, max_size=3),
                            },
                        ),
                        "finish_reason": JSON | st.sampled_from(["stop", "length", "tool_calls", "content_filter"]),
                    },
                ),
                max_size=2,
            )
        },
        optional={"usage": JSON, "error": JSON},
    ),
)


@st.composite
def replies(draw: Any) -> Reply:
    """An answer: well-formed, of odd chunks, or bytes; then cut and damaged."""
    kind = draw(st.sampled_from(["turn", "turn", "chunks", "bytes", "status"]))
    if kind == "status":
        return failure(draw(st.sampled_from([400, 401, 408, 429, 500, 503])), draw(st.text(max_size=20)))
    if kind == "bytes":
        body = draw(st.binary(max_size=200) | HALF_CHARACTERS)
    else:
        options = {"ids": draw(st.booleans()), "indices": draw(st.booleans()), "interleave": draw(st.booleans())}
        chunks: list[Any] = chunks_of(draw(TURNS), **options) if kind == "turn" else []
        for odd in draw(st.lists(ODD_CHUNKS, max_size=3)) if kind == "chunks" or draw(st.booleans()) else []:
            chunks.insert(draw(st.integers(0, len(chunks))), odd)
        body = event_stream(chunks, done=draw(st.booleans()), comments=draw(st.booleans()))
    if draw(st.integers(0, 3)) == 0 and body:
        at = draw(st.integers(0, len(body) - 1))
        body = body[:at] + draw(st.binary(max_size=8)) + body[at + draw(st.integers(0, 20)) :]
    return Reply(
        body=body,
        split_every=draw(st.sampled_from([None, None, 1, 7, 64]) if len(body) < 600 else st.sampled_from([None, 64])),
        cut_after=draw(st.none() | st.integers(0, max(0, len(body)))),
        content_type=draw(st.sampled_from(["text/event-stream", "text/event-stream", "application/json"])),
    )


def assert_each_call_answered_once(messages: list[Any]) -> None:
    """The rule of every chat-completions service; breaking it makes a conversation useless from then on."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert waiting, f"an answer to no call: {message}"
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert waiting == [], f"calls without an answer before {message['role']}"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        assert len(set(waiting)) == len(waiting)
        assert all(waiting)
        assert message.get("tool_calls") != []
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert waiting == []


ODD_ARGUMENTS = ("null", '"{}"', '"null"', "", " ", "7", "[]", '{"a": 1')
"""What servers send for no arguments, or wrongly: each goes back as an object, or some of them refuse the request."""


async def converse(answers: list[Reply], policy: Any, api: ApiName = "chat") -> None:
    def act(call: Any, emit: Any) -> str:
        return call.arguments_json

    server = FakeOpenAI([*answers, say("Done.")], repeat=True)
    await asyncio.to_thread(server.start)
    quick = RetryPolicy(tries=2, first_delay=0.0)
    models = ModelResolver(default="it/fake", endpoints=[Endpoint("it", server.url, api=api)], retry=quick)
    runtime = await Runtime.open(None, models, RuntimeSettings(token_flush_seconds=0.0), attended=False)
    try:
        conversation = await runtime.create_conversation()
        for _ in range(2):
            spec = RunSpec(run_id=new_run_id(), prompt="Go.", policy=policy, tools=(RUN_PYTHON, LOOK))
            handle = await conversation.start_run(spec, FunctionExecutor(act))
            async with asyncio.timeout(60):
                result = await handle.wait()
            assert result.run.status in ("complete", "error")
            if result.run.error is not None:
                assert result.run.error.code != "INTERNAL_ERROR", result.run.error
            final = ("success", "error", "denied", "invalid")
            assert all(call.state in final for call in result.tool_calls)
    finally:
        await runtime.aclose()
        await models.aclose()
        await asyncio.to_thread(server.stop)
    assert server.wrong == []
    for request in server.requests:
        if api == "chat":
            assert_each_call_answered_once(request.body["messages"])


@given(st.lists(replies(), min_size=1, max_size=4), st.sampled_from(["allow", "ask", "plan"]))
@example(
    [streamed(ModelTurn("", tool_calls=(requested("look", odd, call_id="c1"),))) for odd in ODD_ARGUMENTS], "allow"
)
@rounds(10, 800)
def test_a_run_ends_and_leaves_no_orphans_whatever_the_model_sends(answers: list[Reply], policy: Any) -> None:
    asyncio.run(converse(answers, policy))
