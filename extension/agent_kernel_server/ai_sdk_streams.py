"""The AI SDK endpoint's streams: a conversation is followed from a run's beginning, and an answer is sent as chunks."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from orjson import dumps, loads

from agent_kernel.errors import AgentKernelError
from agent_kernel.runtime.clients.dispatch import NotAllowed, reply_for
from agent_kernel.runtime.clients.ui_answers import Answer, Chunk, answer_id
from agent_kernel.runtime.clients.ui_messages import History
from agent_kernel.runtime.conversation import Conversation
from agent_kernel_server.streams import StreamHandler

VERSION = ("x-vercel-ai-ui-message-stream", "v1")


@dataclass(slots=True)
class Target:
    """What a response is about."""

    prompt_id: str
    run_id: str | None = None
    answer: Answer | None = None
    steps: int = 0
    """How many steps of the answer the page has, where it goes on with one."""
    states: dict[str, str] = field(default_factory=dict)
    """The states in which the page has the answer's calls."""
    settling: set[str] = field(default_factory=set)
    """The calls that the request has answered: the response does not end before the log shows it."""
    never_began: bool = False
    """Whether its run was stopped before it began."""
    faults: list[str] = field(default_factory=list)
    """Why something that was asked for was not done."""


class Follower:
    """Follows a conversation: from its first event, or from those after one."""

    def __init__(self, conversation: Conversation, page_tools: Collection[str], after_seq: int = 0) -> None:
        self.history = History(conversation.conversation_id, page_tools)
        self._conversation = conversation
        self._subscription = conversation.subscribe(after_seq)

    def is_caught_up(self) -> bool:
        return self._subscription.cursor >= self._conversation.last_seq

    async def catch_up(self) -> None:
        """Take in what has happened so far."""
        if self.is_caught_up():
            return
        async for frame in self._subscription:
            self.history.take(loads(frame))
            if self.is_caught_up():
                return

    async def events(self) -> AsyncIterator[tuple[dict[str, Any], Answer | None, list[Chunk]]]:
        """What happens from now on, until the conversation is deleted."""
        async for frame in self._subscription:
            event = loads(frame)
            yield event, *self.history.take(event, live=True)

    def close(self) -> None:
        self._subscription.close()


class ChatStreamHandler(StreamHandler):
    """What the endpoint's two streams share."""

    _follower: Follower | None = None

    def close(self) -> None:
        if self._follower is not None:
            self._follower.close()

    @asynccontextmanager
    async def following(
        self, conversation: Conversation, page_tools: Collection[str], message_id: str | None
    ) -> AsyncIterator[Follower]:
        """Follow a conversation from the beginning of the run of a message of the user: what came before has nothing to
        do with the response, however much it is."""
        after_seq = await conversation.seq_before_run(message_id)
        self._follower = follower = Follower(conversation, page_tools, after_seq)
        conversation.client_came()
        try:
            await follower.catch_up()
            yield follower
        finally:
            follower.close()

    async def page_tools_of(self, conversation: Conversation) -> set[str]:
        return {tool.name for tool in await conversation.tools() if tool.runs_in == "page"}

    async def stream(self, follower: Follower, target: Target) -> None:
        """Send an answer until it has ended, or waits for a person."""
        self.set_header(*VERSION)
        async with self.open_stream():
            try:
                await self._follow(follower, target)
            except (AgentKernelError, NotAllowed) as error:
                await self._write({"type": "error", "errorText": reply_for(error).message})
            await self.write_text(b"data: [DONE]\n\n")

    async def _follow(self, follower: Follower, target: Target) -> None:
        if target.answer is not None:
            await self._write(target.answer.start, *target.answer.lacking(target.steps, target.states))
        if not _is_done(follower, target):
            async for event, answer, chunks in follower.events():
                if target.answer is None and answer is not None and answer.prompt_id == target.prompt_id:
                    target.answer = answer
                if answer is not None and answer is target.answer:
                    await self._write(*chunks)
                if target.answer is None and event["type"] == "complete" and event["run_id"] == target.run_id:
                    await self._write_unbegun(event, target)
                if _is_done(follower, target):
                    break
        if self.refused:
            raise NotAllowed("read")
        if target.answer is not None:
            await self._write_end(target.answer, target)

    async def _write_end(self, answer: Answer, target: Target) -> None:
        closing = list(answer.closing())
        if target.faults:
            closing[-1] = {"type": "error", "errorText": " ".join(target.faults)}
        await self._write(*closing)

    async def _write_unbegun(self, event: dict[str, Any], target: Target) -> None:
        """The end of a run that was stopped before it began."""
        error = event.get("error")
        ended = {"type": "abort", "reason": "The run was stopped before it began."}
        if error is not None:
            ended = {"type": "error", "errorText": error["message"]}
        await self._write({"type": "start", "messageId": answer_id(target.prompt_id)}, ended)
        target.never_began = True

    async def _write(self, *chunks: Chunk) -> None:
        for chunk in chunks:
            await self.write_text(b"data: %b\n\n" % dumps(chunk))


def _is_done(follower: Follower, target: Target) -> bool:
    """Whether a response ends here. What is committed comes first."""
    answer = target.answer
    if answer is None or not follower.is_caught_up():
        return target.never_began
    calls = (answer.calls[one] for one in target.settling if one in answer.calls)
    if any(call.waits and not call.unknown for call in calls):
        return False
    return answer.over or answer.waits
