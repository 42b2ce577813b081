"""Whatever bytes a service sends in the Responses API: the run ends, and what is asked next is what OpenAI's service
takes, as far as the types of its client and the order of the items say so."""

import asyncio
from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing import requested
from agent_kernel.testing.wire.reply import Reply, event_stream, failure
from agent_kernel.testing.wire.responses import events_of, numbered, streamed
from tests.core.models.model_apis import RESPONSES
from tests.core.models.test_answer_faults import RESPONSES_EVENTS
from tests.core.runtime.turns.fuzzing import rounds
from tests.core.runtime.turns.test_fuzz_model import HALF, JSON, ODD_ARGUMENTS, TURNS, converse

HALF_CHARACTERS = st.sampled_from(
    [
        f'{{"type": "message", "content": [{{"type": "output_text", "text": "{HALF}"}}]}}',
        f'{{"type": "reasoning", "id": "r", "encrypted_content": "{HALF}"}}, {{"type": "message", "content": "x"}}',
        f'{{"type": "function_call", "call_id": "{HALF}", "name": "look", "arguments": "{{}}"}}',
        f'{{"type": "function_call", "call_id": "c1", "name": "{HALF}", "arguments": "{{}}"}}',
        f'{{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{HALF}"}}',
        f'{{"type": "function_call", "call_id": "c1", "name": "run_python", "arguments": {{"code": "{HALF}"}}}}',
    ]
).map(lambda items: f'data: {{"type": "response.completed", "response": {{"output": [{items}]}}}}\n\n'.encode())


@st.composite
def replies(draw: Any) -> Reply:
    """An answer with its reasoning, as some server gets it wrong, and odd events in it; then cut and damaged."""
    kind = draw(st.sampled_from(["turn", "turn", "turn", "half", "status"]))
    if kind == "status":
        return failure(draw(st.sampled_from([400, 401, 408, 429, 500, 503])), draw(st.text(max_size=20)))
    if kind == "half":
        body = draw(HALF_CHARACTERS)
    else:
        turn = replace(draw(TURNS), reasoning=draw(st.text(max_size=5)))
        events = events_of(turn, ids=draw(st.booleans()), interleave=draw(st.booleans()))
        if draw(st.booleans()):
            events = draw(st.sampled_from(list(RESPONSES.changes.values())))(numbered(events))
        for odd in draw(st.lists(RESPONSES_EVENTS | JSON, max_size=3)):
            events.insert(draw(st.integers(0, len(events))), odd)
        body = event_stream(events, done=draw(st.booleans()), comments=draw(st.booleans()))
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(body) - 1))
        body = body[:at] + draw(st.binary(max_size=8)) + body[at + draw(st.integers(0, 20)) :]
    split = draw(st.sampled_from([None, None, 7, 64]) if len(body) < 600 else st.sampled_from([None, 64]))
    return Reply(body=body, split_every=split, cut_after=draw(st.none() | st.integers(0, len(body))))


@given(st.lists(replies(), min_size=1, max_size=4), st.sampled_from(["allow", "ask", "plan"]))
@example(
    [streamed(ModelTurn("", "Hm.", tool_calls=(requested("look", odd, call_id="c1"),))) for odd in ODD_ARGUMENTS],
    "allow",
)
@rounds(10, 800)
def test_what_is_asked_next_is_taken_whatever_the_model_sends(answers: list[Reply], policy: Any) -> None:
    asyncio.run(converse(answers, policy, "responses"))
