"""A model's service that hangs, breaks off, refuses or talks nonsense: nothing is left open, nothing orphaned."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent_kernel.models.endpoints import Endpoint
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.models.retry_policy import RetryPolicy
from agent_kernel.protocol.commands import Decision
from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel.testing.wire.chat import streamed
from agent_kernel.testing.wire.reply import Reply, failure, rate_limited
from tests.core.runtime.runtime_fixtures import Stage, stage
from tests.faults import checks

TWO_CALLS = calls(call("run_python", code="1 + 1", call_id="a"), call("run_python", code="2 + 2", call_id="b"))
WHOLE = streamed(TWO_CALLS).body
BEFORE_THE_SECOND_CALL = WHOLE.index(b'"id": "b"') - 200
IN_THE_ARGUMENTS = WHOLE.rindex(b'"arguments": "') + 10


@pytest.fixture
async def service() -> AsyncIterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
async def one(service: FakeOpenAI, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """A conversation with a model at that service. The patience with one that hangs is short."""
    hangs = "hangs" in request.node.name
    endpoint = Endpoint("openai", service.url, api_key=lambda: "a-key", idle_seconds=3 if hangs else 120)
    retry = RetryPolicy(first_delay=0.01, longest_delay=0.02)
    models = ModelResolver(default="fake", endpoints=[endpoint], retry=retry)
    made = await stage(models.resolve())
    yield made
    await made.close()
    await models.aclose()


def requests_of(service: FakeOpenAI) -> list[Any]:
    return [request.body["messages"] for request in service.requests]


@pytest.mark.parametrize(
    "trouble",
    [
        streamed(TWO_CALLS, cut_after=BEFORE_THE_SECOND_CALL),
        streamed(TWO_CALLS, cut_after=IN_THE_ARGUMENTS),
        streamed(TWO_CALLS, hang_after=IN_THE_ARGUMENTS),
        Reply(body=b'data: {"this is": no JSON\n\ndata: [DONE]\n\n'),
        Reply(body=b"<html>502 Bad Gateway</html>", content_type="text/html"),
    ],
    ids=["cut before a call", "cut in a call", "hangs in a call", "garbage", "html"],
)
async def test_after_a_broken_answer_no_card_stays_open_and_the_next_prompt_is_answered(
    service: FakeOpenAI, one: Stage, trouble: Reply
) -> None:
    service.add(trouble, say("All well now."))
    result = await (await one.start()).wait()
    assert result.run.status in ("error", "complete")
    assert set(checks.cards([event.model_dump() for event in one.events]).values()) <= checks.FINAL
    if result.run.status == "error":
        result = await (await one.start("And now?")).wait()
    assert result.text == "All well now."
    assert [checks.orphans(messages) for messages in requests_of(service)] == [[], []]


@pytest.mark.parametrize("trouble", [rate_limited(3, "0.01"), failure(500, times=3)], ids=["429 storm", "500"])
async def test_a_storm_of_errors_in_the_middle_of_a_run_costs_no_call(
    service: FakeOpenAI, one: Stage, trouble: Reply
) -> None:
    service.add(TWO_CALLS, trouble, say("Both done."))
    handle = await one.start()
    for request in await one.requests(2):
        await one.conversation.route_decision(request.approval_id, Decision(approved=True))
    result = await handle.wait()
    assert result.text == "Both done."
    assert [ran.tool_call_id for ran in one.executor.ran] == ["a", "b"]
    assert [checks.orphans(messages) for messages in requests_of(service)] == [[]] * 5
