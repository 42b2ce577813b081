"""Server-sent events: what `curl -N` and a browser's `EventSource` see."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import aiohttp
import pytest
import pytest_asyncio

from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel_server import identity
from tests.server.client import Api, Kernel
from tests.server.serving import Server
from tests.server.test_channel import Switchable
from tests.waiting import until

Event = tuple[str | None, dict[str, Any]]


class Follower:
    """An `EventSource`: the events of one response, each with its id."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> Event:
        """The next event. Fails with `EOFError` at the end of the stream."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(60):
            while line := (await self.response.content.readline()).decode():
                name, _, value = line.rstrip("\n").partition(":")
                if line != "\n":
                    fields[name] = value.removeprefix(" ")
                elif "data" in fields:
                    return fields.get("id"), json.loads(fields["data"])
                else:
                    fields = {}
        raise EOFError

    async def until(self, kind: str) -> list[Event]:
        """The events up to the first of this type."""
        got = [await self.next()]
        while got[-1][1]["type"] != kind:
            got.append(await self.next())
        return got


class Follow(Protocol):
    def __call__(self, conversation_id: str, query: str = "", **headers: str) -> Any: ...


@pytest_asyncio.fixture(loop_scope="module")
async def follow(server: Server) -> AsyncIterator[Follow]:
    """Follows a conversation's events: `async with follow(conversation_id, "?after=3") as stream`."""
    async with aiohttp.ClientSession(headers=server.headers, read_bufsize=2**24) as http:

        @asynccontextmanager
        async def open_stream(conversation_id: str, query: str = "", **headers: str) -> AsyncIterator[Follower]:
            path = ("agent-kernel", "api", "conversations", conversation_id, "events")
            async with http.get(server.url("http", path, None).rstrip("?") + query, headers=headers) as response:
                yield Follower(response)

        yield open_stream


@pytest.mark.kernel
async def test_a_run_is_followed_and_who_connects_again_gets_what_was_missed_and_nothing_twice(
    api: Api, follow: Follow, model: FakeOpenAI, kernel: Kernel
) -> None:
    model.add(call("run_python", code="print('six')"), say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    async with follow(conversation_id) as stream:
        assert (stream.response.status, stream.response.headers["Content-Type"]) == (200, "text/event-stream")
        assert (await stream.next())[1]["type"] == "session"
        await api.start_run(conversation_id)
        waiting = await stream.until("approval_request")
    last = waiting[-1][0]
    await api.decide()
    async with follow(conversation_id, "?after=0", **{"Last-Event-ID": str(last)}) as stream:
        first = await stream.next()
        assert (first[1]["type"], first[0]) == ("session", last)
        rest = await stream.until("complete")
    async with follow(conversation_id, f"?after={last}") as stream:  # for a client that can send no header
        assert (await stream.until("complete"))[1:] == rest
    async with follow(conversation_id, "?after=-1") as stream:
        assert (stream.response.status, (await stream.response.json())["field"]) == (400, "after")
    got = waiting + rest
    assert "".join(event["content"] for _, event in got if event["type"] == "token") == "Done."
    assert [int(one or 0) for one, _ in got] == [event["seq"] for _, event in got] == list(range(1, len(got) + 1))
    assert [event["status"] for _, event in rest if event["type"] == "tool_complete"] == ["success"]


@pytest.mark.parametrize("server_traits", [{"authorizer_class": Switchable}])
async def test_a_stream_ends_when_its_user_may_not_look_any_more(
    api: Api, follow: Follow, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "ASK_SECONDS", 0.02)
    async with follow(await api.new_conversation()) as stream:
        await stream.next()
        with monkeypatch.context() as patch:
            patch.setattr(Switchable, "blind", lambda: True)
            assert (await stream.next())[1]["code"] == "ACCESS_DENIED"
            with pytest.raises(EOFError):
                await stream.next()
    await until(lambda: not server.service.streams)
