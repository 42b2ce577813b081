"""What is said of each try before the next one, and how long that waits."""

import re
from typing import Any

import pytest

from agent_kernel.errors import ModelUnavailable
from agent_kernel.models.base import Delay, ModelItem
from agent_kernel.models.checkup import check_up
from agent_kernel.models.refusals import wait_in_body
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.models.retry_policy import RetryPolicy
from agent_kernel.testing import FakeOpenAI, VirtualClock, call, say
from agent_kernel.testing.fake_service import Scripted
from agent_kernel.testing.wire.reply import Reply, failure, json_reply, rate_limited
from tests.core.models.model_apis import WireApi, any_api, each_api
from tests.core.models.model_fixtures import REQUEST, TURN, collect, connected, error_of

LOADING = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}


def delays(items: list[ModelItem]) -> list[Delay]:
    return [item for item in items if isinstance(item, Delay)]


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"message": "Rate limit reached on tokens per min. Please try again in 1.2s. Visit https://a.example"}, 1.2),
        ({"message": "Rate limit reached. Please try again in 7m12.5s. Need more tokens?"}, 432.5),
        ({"message": "Requests exceeded the call rate limit. Please retry after 26 seconds."}, 26),
        ({"code": 429, "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "24s"}]}, 24),
        ({"message": 'VertexAIException - b\'{\\n "details": [{"retryDelay": "44.5s"}]}\''}, 44.5),
        ({"message": '{\\"retryDelay\\": \\"9s\\"}'}, 9),
        ({"message": "Slow down", "retry_after": 3}, 3),
        ("Too many requests, try again in 2 minutes", 120),
        ({"message": "Please try again later."}, None),
        ({"message": "retry after 2026-11-26"}, None),
        ({"message": "retry in 12 steps", "retryDelay": ["24s"], "retry_after": "soon"}, None),
        ({"message": "try again in " + "9" * 500_000}, None),
    ],
)
def test_a_wait_that_a_body_asks_for_is_read_in_every_services_words(body: Any, seconds: float | None) -> None:
    assert wait_in_body(body) == pytest.approx(seconds)


@any_api
async def test_each_try_is_said_with_its_time_and_its_cause(api: WireApi) -> None:
    script = (
        rate_limited(retry_after="30"),
        failure(529, "Overloaded"),
        failure(500, "Boom"),
        say("Hi"),
    )
    async with connected(*script, api=api) as (server, model):
        told = delays(await collect(model))
    assert [(one.kind, one.attempt, one.tries) for one in told] == [
        ("rate_limited", 2, 4),
        ("overloaded", 3, 4),
        ("failed", 4, 4),
    ]
    assert told[0].seconds == 30
    assert [one.cause for one in told] == ["Rate limit reached.", "Overloaded.", f"{server.url} failed (500): Boom."]


@any_api
async def test_a_person_who_does_not_want_to_wait_has_it_tried_now_and_that_is_none_of_the_tries(api: WireApi) -> None:
    clock = VirtualClock(auto=False)
    async with connected(rate_limited(5, retry_after="30"), say("Hi"), api=api, clock=clock) as (server, model):
        told: list[Delay] = []
        async for item in model.stream(REQUEST):
            if isinstance(item, Delay):
                told.append(item)
                item.hurry.set()
    assert [one.attempt for one in told] == [2] * 5
    assert len(server.requests) == 6
    assert clock.sleepers == 0


# A model that is being loaded


@any_api
async def test_a_server_that_is_loading_its_model_is_waited_for_and_these_are_no_tries(api: WireApi) -> None:
    clock = VirtualClock()
    loading = json_reply(LOADING, status=503, times=12)
    async with connected(loading, failure(500, times=3), say("Hi"), api=api, clock=clock) as (_, model):
        told = delays(await collect(model))
    assert clock.slept[:12] == [2.0] * 12
    assert [(one.kind, one.tries) for one in told] == [("loading", None)] * 12 + [("failed", 4)] * 3
    assert told[0].cause == "Loading model."


@pytest.mark.parametrize(
    "body",
    [
        LOADING,
        {"error": "Model acme/large is currently loading", "estimated_time": 20.0},
    ],
)
async def test_after_a_minute_it_is_said_that_the_model_is_still_being_loaded(body: Any) -> None:
    clock = VirtualClock()
    error = await error_of(json_reply(body, status=503, times=31), clock=clock)
    assert isinstance(error, ModelUnavailable)
    assert sum(clock.slept) == 60
    assert "is still loading fake: " in str(error)


async def test_doctor_waits_for_a_model_that_is_being_loaded_and_for_a_rate_limit() -> None:
    clock = VirtualClock()
    left = iter([json_reply(LOADING, status=503)] * 3)
    pages = {"/v1/models": lambda _: next(left, {"object": "list", "data": [{"id": "fake", "object": "model"}]})}
    script: list[Scripted] = [json_reply(LOADING, status=503, times=5), rate_limited(retry_after="90"), call("ready")]
    async with FakeOpenAI(script, pages=pages) as server:
        environ = {"OPENAI_BASE_URL": server.address}
        resolver = ModelResolver(environ=environ, clock=clock, retry=RetryPolicy(tries=2))
        said: list[str] = []
        findings = await check_up(resolver, ask=True, tell=said.append)
        await resolver.aclose()
    marks = {finding.mark for finding in findings}
    assert "MEND" not in marks, findings
    assert any("answers and calls tools" in finding.text for finding in findings)
    assert any("It had to be asked again. Loading model" in finding.text for finding in findings)
    assert 90.0 in clock.slept
    assert any("Loading model. It is asked again in 2 s." in line for line in said)
    assert any("Rate limit reached. It is asked again in 90 s." in line for line in said)


# Connections that are cut


@each_api
async def test_a_cut_connection_says_after_how_many_words_and_not_what_http_calls_it(api: WireApi) -> None:
    begun = api.streamed(TURN, cut_after=len(api.body(TURN)) // 2, pause=0.02)
    error = str(await error_of(begun, api=api))
    assert re.fullmatch(
        r"The answer was cut off after \d words: the connection was closed early\. "
        r"What came is kept in the record\. Try again has the model answer anew\.",
        error,
    )


@any_api
async def test_a_connection_that_is_cut_before_a_word_is_said_and_tried_again(api: WireApi) -> None:
    async with connected(api.streamed(TURN, cut_after=0), TURN, api=api) as (server, model):
        (told,) = delays(await collect(model))
    assert told.cause == f"{server.url} closed the connection, before a word of the answer came."
    error = await error_of(*[api.streamed(TURN, cut_after=0)] * 4, api=api)
    assert "closed the connection after 4 tries, before a word of the answer came." in str(error)
    assert "reached" not in str(error)


@any_api
@pytest.mark.parametrize("status", [None, 504])
async def test_a_gateway_that_waits_for_no_long_prompt_is_named_as_the_likely_cause(
    api: WireApi, status: int | None
) -> None:
    clock = VirtualClock()
    reply = api.streamed(TURN, cut_after=0) if status is None else failure(status, "Gateway Time-out")

    def after_a_minute(_: dict[str, Any]) -> Reply:
        clock.advance(60)
        return reply

    async with connected(after_a_minute, failure(500), TURN, api=api, clock=clock) as (_, model):
        told = delays(await collect(model))
    assert (
        "That was after 60 s: probably the model takes longer to read so long a prompt than a gateway" in told[0].cause
    )
    assert "probably" not in told[1].cause
    error = str(await error_of(*[after_a_minute] * 4, api=api, clock=clock))
    assert "That was after 60 s: probably" in error
