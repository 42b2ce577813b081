"""A service that sends odd JSON: a run ends in its words, or in an error of the model, never in one of Agent Kernel."""

import re

import pytest

from agent_kernel.models.base import ModelTurn
from agent_kernel.models.retry_policy import RetryPolicy
from agent_kernel.testing import requested
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.model_apis import WireApi, each_api
from tests.core.models.model_fixtures import model_at
from tests.core.runtime.runtime_fixtures import Stages

DEEP = 50_000
ODD = {
    "half an emoji": rb'"\ud83d"',
    "its bytes": b'"\xed\xa0\x80"',
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "as deep as can just be read": b"[" * 900 + b"]" * 900,
    "a long number": b"9" * 5_000,
    "no number": b"NaN",
    "a name twice": b'{"a": 1, "a": 2}',
}


@each_api
@pytest.mark.parametrize("place", ["of a text", "of a number", "within the arguments", "alone"])
async def test_odd_json_of_a_service_is_no_fault_of_ours(stages: Stages, api: WireApi, place: str) -> None:
    replies: list[Reply] = []

    def answer(_: object) -> Reply:
        return replies.pop() if replies else Reply(body=api.saying("Done."))

    async with api.service([answer], repeat=True) as server:
        model = model_at(server.url, wire_name="m", api=api, retry=RetryPolicy(tries=1))
        for odd, value in ODD.items():
            replies[:] = [Reply(body=odd_body(api, place, value))]
            result = await (await (await stages(model)).start("Look.")).wait()
            assert result.run.status in ("complete", "error")
            assert result.run.error is None or result.run.error.code == "LLM_ERROR", (odd, result.run.error)
        await model.aclose()


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
