"""The WebSocket channel, and server-sent events, as a page, a script and a stranger see them."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError

from agent_kernel.protocol.commands import MAX_FRAME_BYTES
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel_server import identity, sockets
from tests.server.client import Api, Kernel, OpenChannel
from tests.server.serving import Server
from tests.waiting import until


async def test_the_session_comes_first_and_the_answer_streams_as_tokens(
    api: Api, client: OpenChannel, model: FakeOpenAI
) -> None:
    model.add(say("The answer is four, as far as anybody knows."))
    conversation_id = await api.new_conversation()
    page = await client(conversation_id)
    session = await page.next()
    assert (session["type"], session["protocol"], session["last_seq"]) == ("session", 1, 0)
    assert session["snapshot"]["conversation_id"] == conversation_id
    assert session["tools"] == [], "there is no kernel that could run any"
    await page.send({"type": "message", "content": "What is 2 + 2?"})
    complete = await page.until("complete")
    assert complete["finish_reason"] == "stop"
    text = "".join(frame["content"] for frame in page.frames if frame["type"] == "token")
    assert text == "The answer is four, as far as anybody knows."
    seqs = [frame["seq"] for frame in page.frames[1:]]
    assert seqs == list(range(1, len(seqs) + 1))


async def test_an_oversized_frame_is_answered_and_the_connection_stays(api: Api, client: OpenChannel) -> None:
    page = await client(await api.new_conversation())
    await page.next()
    await page.send("x" * (MAX_FRAME_BYTES * 20))
    error = await page.next()
    assert (error["type"], error["code"], str(MAX_FRAME_BYTES) in error["message"]) == ("error", "INVALID_FORMAT", True)
    await page.send({"type": "ping"})
    assert (await page.next())["type"] == "pong"


async def test_a_page_that_comes_before_its_run_is_announced_waits_for_it(
    server: Server, client: OpenChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await server.service.runtime()
    awaited: list[str] = []
    find = Runtime.wait_for_conversation

    async def wait_for_conversation(runtime: Runtime, conversation_id: str, seconds: float) -> Conversation:
        awaited.append(conversation_id)
        return await find(runtime, conversation_id, seconds)

    monkeypatch.setattr(Runtime, "wait_for_conversation", wait_for_conversation)
    opening = [asyncio.create_task(client("conv_soon")) for _ in range(2)]
    await until(lambda: len(awaited) == 2)
    await runtime.create_conversation(conversation_id="conv_soon")
    for page in await asyncio.gather(*opening):
        assert (await page.next())["conversation_id"] == "conv_soon"


async def test_a_channel_to_an_unknown_conversation_is_404(
    api: Api, client: OpenChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "ANNOUNCED_SECONDS", 0.05)
    with pytest.raises(HTTPClientError, match="404"):
        await client("nowhere")


@pytest.mark.parametrize("server_traits", [{"allow_origin": "https://friend.example"}])
async def test_an_allowed_origin_gets_a_channel_and_others_do_not(api: Api, client: OpenChannel) -> None:
    conversation_id = await api.new_conversation()
    page = await client(conversation_id, headers={"Origin": "https://friend.example"})
    assert (await page.next())["type"] == "session"
    with pytest.raises(HTTPClientError, match="403"):
        await client(conversation_id, headers={"Origin": "https://elsewhere.example"})


class Switchable(Authorizer):
    """Everything is allowed until the test says that nothing is."""

    blind: ClassVar[Callable[[], bool]] = staticmethod(lambda: False)

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return not Switchable.blind()


def may_look() -> bool:
    raise RuntimeError("the site's own service is down")


@pytest.mark.parametrize("server_traits", [{"authorizer_class": Switchable}])
@pytest.mark.parametrize("becomes", ["not to be asked", "refused as it resumes"])
async def test_who_may_not_look_any_more_is_shown_out(
    api: Api, client: OpenChannel, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, becomes: str
) -> None:
    resumes = becomes == "refused as it resumes"
    if not resumes:
        monkeypatch.setattr(identity, "ASK_SECONDS", 0.02)
    model.add(say("A secret."))
    page = await client(conversation_id := await api.new_conversation())
    await api.start_run(conversation_id)
    await page.until("complete")
    with monkeypatch.context() as patch:
        patch.setattr(Switchable, "blind", may_look if becomes == "not to be asked" else lambda: True)
        if resumes:
            await page.send({"type": "resume", "last_seq": 0, "id": "r"})
        refused = await page.until("error")
        assert (refused["code"], refused["command_id"]) == ("ACCESS_DENIED", "r" if resumes else None)
        assert (await page.closed(), page.close_code) == (True, 1008)
        with pytest.raises(HTTPClientError):
            await client(conversation_id)


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


@asynccontextmanager
async def follow(server: Server, conversation_id: str, query: str = "", **headers: str) -> AsyncIterator[Follower]:
    """Follows a conversation's events: `async with follow(server, conversation_id, "?after=3") as stream`."""
    url = server.url("http", ("agent-kernel", "api", "conversations", conversation_id, "events"), None)
    async with (
        aiohttp.ClientSession(headers=server.headers, read_bufsize=2**24) as http,
        http.get(url.rstrip("?") + query, headers=headers) as response,
    ):
        yield Follower(response)


@pytest.mark.kernel
async def test_a_run_is_followed_and_who_connects_again_gets_what_was_missed_and_nothing_twice(
    api: Api, server: Server, model: FakeOpenAI, kernel: Kernel
) -> None:
    model.add(call("run_python", code="print('six')"), say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    async with follow(server, conversation_id) as stream:
        assert (stream.response.status, stream.response.headers["Content-Type"]) == (200, "text/event-stream")
        assert (await stream.next())[1]["type"] == "session"
        await api.start_run(conversation_id)
        waiting = await stream.until("approval_request")
    last = waiting[-1][0]
    await api.decide()
    async with follow(server, conversation_id, "?after=0", **{"Last-Event-ID": str(last)}) as stream:
        first = await stream.next()
        assert (first[1]["type"], first[0]) == ("session", last)
        rest = await stream.until("complete")
    async with follow(server, conversation_id, f"?after={last}") as stream:  # for a client that can send no header
        assert (await stream.until("complete"))[1:] == rest
    async with follow(server, conversation_id, "?after=-1") as stream:
        assert (stream.response.status, (await stream.response.json())["field"]) == (400, "after")
    got = waiting + rest
    assert "".join(event["content"] for _, event in got if event["type"] == "token") == "Done."
    assert [int(one or 0) for one, _ in got] == [event["seq"] for _, event in got] == list(range(1, len(got) + 1))
    assert [event["status"] for _, event in rest if event["type"] == "tool_complete"] == ["success"]


@pytest.mark.parametrize("server_traits", [{"authorizer_class": Switchable}])
async def test_a_stream_ends_when_its_user_may_not_look_any_more(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "ASK_SECONDS", 0.02)
    async with follow(server, await api.new_conversation()) as stream:
        await stream.next()
        with monkeypatch.context() as patch:
            patch.setattr(Switchable, "blind", lambda: True)
            assert (await stream.next())[1]["code"] == "ACCESS_DENIED"
            with pytest.raises(EOFError):
                await stream.next()
    await until(lambda: not server.service.streams)


PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


@pytest.mark.kernel
async def test_the_example_of_the_protocols_page_asks_a_person_and_prints_the_answer(
    kernel: Kernel, server: Server, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    example: dict[str, Any] = {"__name__": "example"}
    exec(compile(program, str(PAGE), "exec"), example)
    questions: list[str] = []
    monkeypatch.setattr("builtins.input", lambda question: questions.append(question) or "y")
    model.add(call("run_python", code="answer = 6 * 7"), say("It is 42."))
    address = f"http://localhost:{server.port}{server.app.base_url}"
    answer = await example["ask"](address, server.app.identity_provider.token, "What is 6 * 7?", kernel.kernel_id)
    assert answer == "It is 42."
    assert ["run_python" in question and "6 * 7" in question for question in questions] == [True]
    assert await kernel.text("print(answer)") == "42\n"
