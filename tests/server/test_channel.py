"""The WebSocket channel, as a page, a script and a stranger see it."""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError

from agent_kernel.protocol.commands import MAX_FRAME_BYTES
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.testing import FakeOpenAI, say
from agent_kernel_server import identity, sockets
from tests.server.client import Api, OpenChannel
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
