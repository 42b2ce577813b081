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
from agent_kernel_server import identity, streams
from tests.server.client import Api, Kernel
from tests.server.serving import Server
from tests.server.test_server_routes import ReadOnly
from tests.waiting import until


class Follower:
    """An `EventSource`: the events of one response, each with its id."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self._unread = b""

    async def next(self, seconds: float = 60.0) -> tuple[str | None, dict[str, Any]]:
        """The next event. Fails with `EOFError` at the end of the stream."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(seconds):
            while line := (await self.line()).decode():
                name, _, value = line.rstrip("\n").partition(":")
                if line != "\n":
                    fields[name] = value.removeprefix(" ")
                elif "data" in fields:
                    return fields.get("id"), json.loads(fields["data"])
                else:
                    fields = {}
        raise EOFError

    async def line(self) -> bytes:
        """The next line, of any length; nothing at the end."""
        parts = [self._unread]
        while b"\n" not in parts[-1]:
            parts.append(await self.response.content.readany())
            if not parts[-1]:
                return b""
        line, _, self._unread = b"".join(parts).partition(b"\n")
        return line + b"\n"

    async def until(self, kind: str) -> list[tuple[str | None, dict[str, Any]]]:
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
    token = server.app.identity_provider.token
    async with aiohttp.ClientSession(headers={"Authorization": f"token {token}"}) as http:

        @asynccontextmanager
        async def open_stream(conversation_id: str, query: str = "", **headers: str) -> AsyncIterator[Follower]:
            address = f"http://localhost:{server.port}/agent-kernel/api/conversations/{conversation_id}/events{query}"
            async with http.get(address, headers=headers) as response:
                yield Follower(response)

        yield open_stream


async def test_a_run_is_followed_from_its_beginning_to_its_end(api: Api, follow: Follow, model: FakeOpenAI) -> None:
    model.add(say("The answer is four."))
    conversation_id = await api.new_conversation()
    async with follow(conversation_id) as stream:
        assert stream.response.status == 200
        assert stream.response.headers["Content-Type"] == "text/event-stream"
        assert (await stream.next())[1]["type"] == "session"
        await api.start_run(conversation_id)
        got = await stream.until("complete")
    assert "".join(event["content"] for _, event in got if event["type"] == "token") == "The answer is four."
    assert [int(one or 0) for one, _ in got] == [event["seq"] for _, event in got] == list(range(1, len(got) + 1))


@pytest.mark.kernel
async def test_who_connects_again_gets_what_was_missed_and_nothing_twice(
    api: Api, follow: Follow, model: FakeOpenAI, kernel: Kernel
) -> None:
    model.add(call("run_python", code="print('six')"), say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    async with follow(conversation_id) as stream:
        await stream.next()
        await api.start_run(conversation_id)
        waiting = await stream.until("approval_request")
    last, approval_id = waiting[-1][0], waiting[-1][1]["approval_id"]
    status, _ = await api("POST", "approvals", approval_id, body={"approved": True})
    assert status == 200
    async with follow(conversation_id, "?after=0", **{"Last-Event-ID": str(last)}) as stream:
        first = await stream.next()
        assert (first[1]["type"], first[0]) == ("session", last)
        rest = await stream.until("complete")
    seqs = [event["seq"] for _, event in waiting + rest]
    assert seqs == list(range(1, len(seqs) + 1))
    assert [event["status"] for _, event in rest if event["type"] == "tool_complete"] == ["success"]


async def test_after_says_where_a_client_left_off_that_has_no_header(
    api: Api, follow: Follow, model: FakeOpenAI
) -> None:
    model.add(say("One two three."))
    conversation_id = await api.begin()
    last = (await api.ended(conversation_id))["last_seq"]
    async with follow(conversation_id, "?after=2") as stream:
        assert (await stream.next())[0] == "2"
        assert [(await stream.next())[0] for _ in range(last - 2)] == [str(seq) for seq in range(3, last + 1)]
    async with follow(conversation_id, "?after=999999") as stream:
        assert await stream.next() is not None
        await api("DELETE", "conversations", conversation_id)
        with pytest.raises(EOFError):
            await stream.next()


@pytest.mark.parametrize(
    ("query", "headers", "field"),
    [
        ("?after=x", {}, "after"),
        ("?after=-1", {}, "after"),
        ("?after=9999999999999999999999", {}, "after"),
        ("", {"Last-Event-ID": "msg_7"}, "Last-Event-ID"),
        ("?after=1", {"Last-Event-ID": "9" * 5_000}, "Last-Event-ID"),
    ],
)
async def test_a_place_that_is_none_is_refused_with_its_field(
    api: Api, follow: Follow, query: str, headers: dict[str, str], field: str
) -> None:
    async with follow(await api.new_conversation(), query, **headers) as stream:
        assert (stream.response.status, (await stream.response.json())["field"]) == (400, field)


class Blind(ReadOnly):
    """An authorizer that lets nobody look at conversations, or not any more."""

    blind = True

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return not (
            Blind.blind and resource == "agent-kernel" and action == "read" and handler.request.path.endswith("/events")
        )


class TestWithAnAuthorizer:
    @pytest.fixture
    def server_traits(self) -> dict[str, Any]:
        return {"authorizer_class": Blind}

    async def test_a_stream_ends_when_its_user_may_not_look_any_more(
        self, api: Api, follow: Follow, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Blind, "blind", False)
        monkeypatch.setattr(identity, "ASK_SECONDS", 0.02)
        async with follow(await api.new_conversation()) as stream:
            await stream.next()
            monkeypatch.setattr(Blind, "blind", True)
            assert (await stream.next())[1]["code"] == "ACCESS_DENIED"
            with pytest.raises(EOFError):
                await stream.next()
        service = server.service
        await until(lambda: not service.streams)


async def test_a_silent_stream_sends_comments(
    api: Api, follow: Follow, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.02)
    conversation_id = await api.new_conversation()
    async with follow(conversation_id) as stream:
        await stream.next()
        line = await stream.line()
        assert line.startswith(b":")
