"""Whatever bytes a service sends in the Messages API: the run ends, and what is asked next is what Anthropic's service
takes. Its double is as strict as it is, and says what was wrong."""

import asyncio
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.models.resolver import ModelResolver
from agent_kernel.models.retry_policy import RetryPolicy
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.testing import FakeAnthropic, say
from agent_kernel.testing.wire.messages import events_of
from agent_kernel.testing.wire.reply import Reply, event_stream, failure
from tests.core.runtime.runtime_fixtures import LOOK, RUN_PYTHON, FunctionExecutor
from tests.core.runtime.turns.fuzzing import rounds
from tests.core.runtime.turns.test_fuzz_model import ARGUMENTS, JSON, TURNS

BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mood"])},
    optional={"text": JSON, "thinking": JSON, "signature": JSON, "data": JSON, "id": JSON, "name": JSON, "input": JSON},
)
DELTAS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "mood_delta"])},
    optional={"text": JSON, "thinking": JSON, "signature": JSON, "partial_json": JSON | ARGUMENTS},
)
ODD_EVENTS = JSON | st.fixed_dictionaries(
    {"type": st.sampled_from([event["type"] for event in events_of(say("Hi"))])},
    optional={
        "index": st.integers(0, 3) | JSON,
        "content_block": BLOCKS | JSON,
        "delta": DELTAS | st.fixed_dictionaries({"stop_reason": JSON | st.just("pause_turn")}),
        "usage": JSON,
    },
)


@st.composite
def replies(draw: Any) -> Reply:
    """An answer with its thinking and odd events in it; then cut and damaged."""
    if draw(st.integers(0, 4)) == 0:
        return failure(draw(st.sampled_from([400, 401, 413, 429, 500, 529])), draw(st.text(max_size=20)))
    turn = replace(draw(TURNS), reasoning=draw(st.text(max_size=5)))
    events: list[Any] = events_of(turn, interleave=draw(st.booleans()))
    for odd in draw(st.lists(ODD_EVENTS, max_size=3)):
        events.insert(draw(st.integers(0, len(events))), odd)
    body = event_stream(events, comments=draw(st.booleans()))
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(body) - 1))
        body = body[:at] + draw(st.binary(max_size=8)) + body[at + draw(st.integers(0, 20)) :]
    split = draw(st.sampled_from([None, None, 7, 64]) if len(body) < 600 else st.sampled_from([None, 64]))
    return Reply(body=body, split_every=split, cut_after=draw(st.none() | st.integers(0, len(body))))


async def converse(server: FakeAnthropic, policy: Any) -> None:
    await asyncio.to_thread(server.start)
    models = ModelResolver(environ=server.environment(), retry=RetryPolicy(tries=2, first_delay=0.0))
    runtime = await Runtime.open(None, models, RuntimeSettings(token_flush_seconds=0.0), attended=False)
    try:
        conversation = await runtime.create_conversation()
        for _ in range(2):
            spec = RunSpec(run_id=new_run_id(), prompt="Go.", policy=policy, tools=(RUN_PYTHON, LOOK))
            handle = await conversation.start_run(spec, FunctionExecutor(lambda call, _: call.arguments_json))
            async with asyncio.timeout(60):
                result = await handle.wait()
            assert result.run.status in ("complete", "error")
            assert result.run.error is None or result.run.error.code != "INTERNAL_ERROR", result.run.error
    finally:
        await runtime.aclose()
        await models.aclose()
        await asyncio.to_thread(server.stop)


@given(st.lists(replies(), min_size=1, max_size=4), st.sampled_from(["allow", "ask", "plan"]))
@rounds(10, 800)
def test_what_is_asked_next_is_taken_whatever_the_model_sends(answers: list[Reply], policy: Any) -> None:
    server = FakeAnthropic([*answers, say("Done.")], repeat=True)
    asyncio.run(converse(server, policy))
    assert server.wrong == []
