"""TurnStream writes a model's turn to the log: text joined into few events, and a card for each call that begins."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agent_kernel.errors import ModelError
from agent_kernel.log import stored_images
from agent_kernel.models.base import (
    IMAGES,
    Delay,
    ModelItem,
    ModelRequest,
    ModelTurn,
    Notice,
    ReasoningDelta,
    RequestedCall,
    Retraction,
    TextDelta,
    ToolCallDelta,
    WireMessage,
    facts_of,
)
from agent_kernel.models.no_answer import NoAnswer, no_answer
from agent_kernel.models.text_calls import has_marks
from agent_kernel.protocol.events import (
    LoggedEvent,
    MessageEvent,
    ReasoningEvent,
    TokenEvent,
    ToolCompleteEvent,
    ToolStateEvent,
)
from agent_kernel.protocol.ids import new_message_id
from agent_kernel.protocol.views import ImageRefs
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.tasks import Batcher, in_thread_if_long
from agent_kernel.runtime.tool_calls import transitions

Part = TextDelta | ReasoningDelta | Retraction | ToolStateEvent | ToolCompleteEvent
"""The parts that a stream writes: text to be joined or taken back, and cards that appear or end."""


class TurnStream:
    """Reads one turn. `text` is the answer so far, for a run that is stopped in the middle; `rest` are the unwritten
    events at the end, for the commit of the turn."""

    def __init__(self, run: ActiveRun) -> None:
        self._run = run
        self.message_id = new_message_id()
        """Of the answer. It is another one after what was written of it was taken back."""
        self._texts: list[str] = []
        self._ids: dict[int, str] = {}
        self.rest: list[LoggedEvent] = []
        self.seen: dict[str, int] = {}
        """The number of pictures of each call in the request."""
        self.asked = False
        """Whether the model was asked."""
        self.begun = False
        """Whether a part of an answer has arrived."""
        self._batcher: Batcher[Part] = Batcher(self._write, run.settings.token_flush_seconds)

    @property
    def text(self) -> str:
        return "".join(self._texts)

    async def read(self) -> ModelTurn:
        """The whole turn, each call with an id that is unique in the conversation, and with the name of the tool that
        it means. Raises `ModelError`, which is `NoAnswer` for a turn that is none. If no turn is returned, whatever the
        cause, the caller calls `break_off`."""
        request = await model_request(self._run)
        turn: ModelTurn | None = None
        self.asked = True
        self.seen = {
            said["tool_call_id"]: len(said[IMAGES])
            for said in request.messages
            if said["role"] == "tool" and IMAGES in said
        }
        try:
            async for item in self._run.model.stream(request):
                if not isinstance(item, Notice | Delay) and self._run.view.usage.steps == 0:
                    self._run.meter.note_answer()
                if isinstance(item, ModelTurn):
                    turn = item
                else:
                    self._take(item)
        finally:
            self._run.delayed(None)
        if turn is None:
            raise ModelError(f"{self._run.model.name} broke off without an end. Try again.")
        if (fault := await self._no_answer(turn)) is not None:
            self._leave(fault.left)
            raise fault
        # A card that was not shown yet is shown by the commit of the turn, with its arguments.
        rest = [part for part in await self._batcher.drain() if not isinstance(part, ToolStateEvent)]
        self.rest = self._events(rest)
        return replace(turn, tool_calls=tuple(self._own(*call) for call in enumerate(turn.tool_calls)))

    async def _no_answer(self, turn: ModelTurn) -> NoAnswer | None:
        tools = [tool.name for tool in self._run.registry]
        server = facts_of(self._run.model).server
        judge = partial(no_answer, turn, tools, server)
        text = turn.content or turn.reasoning
        return await in_thread_if_long(text, judge) if has_marks(text) else judge()

    def _leave(self, text: str) -> None:
        """Of what was shown of the answer, leave this text, which is not the whole."""
        if text != self.text:
            self._take(Retraction())
            if text:
                self._take(TextDelta(text))

    def _take(self, item: ModelItem) -> None:
        if not isinstance(item, Notice | Delay):
            self.begun = True
            self._run.delayed(None)
        match item:
            case Delay():
                self._run.delayed(item)
            case TextDelta():
                self._texts.append(item.content)
                self._batcher.add(item)
            case ReasoningDelta():
                self._batcher.add(item)
            case Retraction():
                if self._texts:
                    self._texts.clear()
                    self._batcher.add(item)
            case Notice():
                self._run.notify(item.content)
            case ToolCallDelta() if item.id:
                self._ids[item.index] = self._run.transcript.call_id(item.id)
                self._batcher.add(
                    ToolStateEvent(
                        run_id=self._run.run_id,
                        tool_call_id=self._ids[item.index],
                        tool_name=self._run.registry.meant(item.name),
                        state="proposed",
                    )
                )
            case _:
                # A call whose id is not known before the turn ends: its card can't be shown yet.
                return

    def _own(self, index: int, call: RequestedCall) -> RequestedCall:
        if index not in self._ids:
            self._ids[index] = self._run.transcript.call_id(call.id)
        name = self._run.registry.meant(call.name)
        return replace(call, id=self._ids[index], name=name, raw_name=call.name if name != call.name else "")

    async def break_off(self) -> None:
        """Write what arrived of an incomplete turn, and end its cards: the log does not have their calls. Not for the
        task that reads, which may be cancelled more than once."""
        for tool_call_id in self._ids.values():
            self._batcher.add(transitions.cut_off(self._run.run_id, tool_call_id))
        await self._batcher.aclose()

    async def _write(self, parts: Sequence[Part]) -> None:
        await self._run.emit(*self._events(parts))

    def _events(self, parts: Sequence[Part]) -> list[LoggedEvent]:
        """Neighbouring deltas of a kind become one event each."""
        events: list[LoggedEvent] = []
        texts: list[str] = []
        for index, part in enumerate(parts):
            if isinstance(part, Retraction):
                run_id = self._run.run_id
                taken_back = MessageEvent(run_id=run_id, message_id=self.message_id, role="assistant", content="")
                events.append(taken_back)
                self.message_id = new_message_id()
                continue
            if not isinstance(part, TextDelta | ReasoningDelta):
                events.append(part)
                continue
            texts.append(part.content)
            if index + 1 == len(parts) or type(parts[index + 1]) is not type(part):
                make = TokenEvent if isinstance(part, TextDelta) else ReasoningEvent
                events.append(make(run_id=self._run.run_id, message_id=self.message_id, content="".join(texts)))
                texts = []
        return events


MOST_IMAGES, FEW_IMAGES = 20, 10
"""When a conversation has more pictures than the first, the oldest are left out down to the second. So the beginning of
requests changes with every tenth picture only, and a provider's cache of it stays valid in between."""


async def model_request(run: ActiveRun) -> ModelRequest:
    """The request for the model's next turn, with the pictures that it gets."""
    messages = run.transcript.messages()
    at = [index for index, message in enumerate(messages) if IMAGES in message]
    refs: list[ImageRefs] = [messages[index][IMAGES] for index in at]
    kept = _kept([len(one) for one in refs]) if run.sends_images else [range(0)] * len(at)
    wanted = {one[place]["digest"] for one, places in zip(refs, kept, strict=True) for place in places}
    data: dict[str, str] = {}
    if wanted:
        number = run.conversation.number
        data = await run.log.read_apart(lambda sql: stored_images.read(sql, number, wanted))
    for index, places in zip(at, kept, strict=True):
        messages[index] = _with_pictures(messages[index], places, data)
    return ModelRequest(
        messages=messages,
        tools=run.registry.openai_format(),
        effort=run.spec.effort,
        images=data,
        cache_key=run.view.conversation_id,
    )


def _kept(counts: Sequence[int]) -> list[range]:
    """Which pictures of each message stay, given the numbers of pictures per message. The choice depends on the
    conversation alone, so that it is the same after a restart."""
    first = 0
    for total in range(1, sum(counts) + 1):
        if total - first > MOST_IMAGES:
            first = total - FEW_IMAGES
    kept: list[range] = []
    for count in counts:
        kept.append(range(min(count, max(0, first)), count))
        first -= count
    return kept


def _with_pictures(message: WireMessage, kept: Collection[int], data: Mapping[str, str]) -> WireMessage:
    """A message with the pictures at the places `kept`, as far as they are there, and a line for each other."""
    refs: ImageRefs = message[IMAGES]
    there = [place in kept and ref["digest"] in data for place, ref in enumerate(refs)]
    attached = [ref for ref, is_there in zip(refs, there, strict=True) if is_there]
    lines = [_line(ref, message["role"]) for ref, is_there in zip(refs, there, strict=True) if not is_there]
    plain = {name: value for name, value in message.items() if name != IMAGES}
    if lines:
        plain["content"] = "\n".join([message["content"], *lines])
    return plain | {IMAGES: attached} if attached else plain


def _line(ref: Mapping[str, Any], role: str) -> str:
    size = f"{ref['width']} x {ref['height']} pixels"
    if role == "tool":
        return f"[A plot was shown to the user: {size}. You can't see it.]"
    return f"[The user's message has a picture: {size}. You can't see it.]"
