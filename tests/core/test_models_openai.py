"""The adapter against a real server on a real socket: what a user gets, however the server says it."""

import asyncio
import gc
import subprocess
import sys
from contextlib import aclosing

import pytest

from agent_kernel.models.base import ModelRequest, TextDelta
from agent_kernel.models.client import Connection, SharedClient
from agent_kernel.models.http import HttpModel
from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel.testing.fake_openai import FAKE_KEY
from agent_kernel.testing.wire.chat import delta, event_stream, events, plain, streamed
from agent_kernel.testing.wire.reply import Reply
from tests.core.model_fixtures import REQUEST, TURN, collect, connected, turn_of, until


@pytest.mark.parametrize(
    "reply",
    [
        streamed(TURN),
        streamed(TURN, split_every=7),
        streamed(TURN, newline="\r\n"),
        streamed(TURN, newline="\r\n", split_every=5),
        streamed(TURN, newline="\r"),
        streamed(TURN, comments=True),
        streamed(TURN, done=False),
        streamed(TURN, indices=False),
        plain(TURN),
    ],
    ids=["plain", "7 bytes", "crlf", "crlf split", "cr", "keep-alives", "no done", "no indices", "not streamed"],
)
async def test_an_answer_arrives_whole_however_it_is_sent(reply: Reply) -> None:
    async with connected(reply) as (_, model):
        assert await turn_of(model) == TURN


async def test_interleaved_parallel_calls_arrive_apart() -> None:
    turn = calls(call("a", call_id="1", x="1" * 30), call("b", call_id="2", y="2" * 50))
    async with connected(streamed(turn, interleave=True, split_every=11)) as (_, model):
        assert await turn_of(model) == turn


async def test_tokens_are_shown_as_they_come() -> None:
    body = event_stream([delta(content="Hel"), delta(content="lo")], done=False)
    async with connected(Reply(body=body, hang_after=len(body)), idle_seconds=5.0) as (server, model):
        seen = ""
        async with aclosing(model.stream(REQUEST)) as items:
            async for item in items:
                assert isinstance(item, TextDelta)
                seen += item.content
                if seen == "Hello":
                    break
        await until(lambda: server.abandoned == 1)


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
    assert first.headers["authorization"] == f"Bearer {FAKE_KEY}"


async def test_the_effort_goes_along_only_where_one_is_wanted() -> None:
    async with connected(say("Hi"), say("Hi")) as (server, model):
        await turn_of(model, ModelRequest(REQUEST.messages, effort="low"))
        await turn_of(model)
    assert server.requests[0].body["reasoning_effort"] == "low"
    assert "reasoning_effort" not in server.requests[1].body


async def test_half_a_character_in_a_tools_output_does_not_stop_the_conversation() -> None:
    async with connected(say("Hi")) as (server, model):
        await turn_of(model, ModelRequest([{"role": "user", "content": "caf\udce9 é"}], ({"maximum": 2**70},)))
    assert server.requests[0].body["messages"][0]["content"] == "caf? é"
    assert server.requests[0].body["tools"][0]["maximum"] == 2**70


async def test_a_connection_is_used_again() -> None:
    async with connected(say("1"), say("2")) as (server, model):
        await turn_of(model)
        client = await model._client.get()
        await turn_of(model)
        assert await model._client.get() is client
    assert len(server.requests) == 2


async def test_a_server_that_keeps_the_connection_open_after_done_does_not_hold_the_answer() -> None:
    body = event_stream([delta(content="Hi"), delta("stop")])
    async with connected(Reply(body=body, hang_after=len(body)), idle_seconds=30.0) as (_, model):
        async with asyncio.timeout(5):
            assert (await turn_of(model)).content == "Hi"


async def test_a_connection_that_breaks_after_the_end_has_lost_nothing() -> None:
    body = event_stream([delta(content="Hi"), delta("stop")], done=False)
    async with connected(Reply(body=body, cut_after=len(body))) as (_, model):
        assert (await turn_of(model)).content == "Hi"


async def test_stopping_in_the_middle_closes_the_connection() -> None:
    async with connected(streamed(TURN, hang_after=0), idle_seconds=30.0) as (server, model):
        task = asyncio.create_task(collect(model))
        await until(lambda: bool(server.requests))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.abandoned == 1)
    gc.collect()


async def test_many_conversations_share_one_client() -> None:
    async with connected(*[say(str(n)) for n in range(20)]) as (_, model):
        turns = await asyncio.gather(*(turn_of(model) for _ in range(20)))
    assert sorted(int(turn.content) for turn in turns) == list(range(20))


def test_two_event_loops_do_not_share_connections() -> None:
    with FakeOpenAI([say("1"), say("2")]) as server:
        client = SharedClient(Connection(server.url, lambda: FAKE_KEY))

        async def once() -> str:
            model = HttpModel("fake", client)
            try:
                return (await turn_of(model)).content
            finally:
                await model.aclose()

        assert asyncio.run(once()) == "1"
        assert asyncio.run(once()) == "2"


@pytest.mark.parametrize("module", ["agent_kernel.models.resolver", "agent_kernel.testing", "agent_kernel.models.http"])
def test_importing_models_loads_neither_openai_nor_langgraph(module: str) -> None:
    code = f"import {module}, sys; print([n for n in ('openai', 'langgraph', 'aiohttp', 'httpx2') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_tokens_that_come_thick_and_fast_are_left_with_the_system_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wake-up per token is most of a token's cost. That the line is found depends on the client's version."""
    from aiohttp.client_proto import ResponseHandler

    reads: list[int] = []
    receive = ResponseHandler.data_received

    def counted(self: ResponseHandler, data: bytes) -> None:
        reads.extend([len(data)] if data else [])
        receive(self, data)

    monkeypatch.setattr(ResponseHandler, "data_received", counted)
    numbers = [f"{number} " for number in range(300)]
    reply = events(*(delta(content=number) for number in numbers), delta("stop"), pause=0.001)
    async with connected(reply) as (_, model):
        turn = await turn_of(model)
    assert turn.content == "".join(numbers)
    assert len(reads) <= 100
