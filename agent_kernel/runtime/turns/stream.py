"""TurnStream writes a model's turn to the log: text joined into few events, and a card for each call that begins."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

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
from agent_kernel.models.no_answer import NoAnswer, has_marks, no_answer
from agent_kernel.protocol.events import (
    LoggedEvent,
    MessageEvent,
    ReasoningEvent,
    TokenEvent,
    ToolCompleteEvent,
    ToolStateEvent,
)
from agent_kernel.protocol.ids import new_message_id
from agent_kernel.runtime.batches import Batcher
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.tasks import read
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
        request = ModelRequest(
            messages=await request_messages(self._run),
            tools=self._run.registry.openai_format(),
            effort=self._run.spec.effort,
            images=self._run.pictures.data,
            cache_key=self._run.view.conversation_id,
        )
        turn: ModelTurn | None = None
        self.asked = True
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
        return await read(text, judge) if has_marks(text) else judge()

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


async def request_messages(run: ActiveRun) -> Sequence[WireMessage]:
    """The messages for the model. Afterwards `run.pictures.data` has the pictures that they refer to."""
    pictures, said = run.pictures, run.transcript.messages()
    at = [index for index, message in enumerate(said) if IMAGES in message]
    if not at:
        pictures.begin_request()
        return said
    kept = _kept([len(said[index][IMAGES]) for index in at]) if run.sends_images else [range(0)] * len(at)
    wanted = {said[index][IMAGES][place]["digest"] for index, places in zip(at, kept, strict=True) for place in places}
    if missing := pictures.begin_request(wanted):
        number = run.conversation.number
        pictures.add_encoded(await run.log.read(lambda sql: stored_images.read(sql, number, missing)))
    messages = list(said)
    for index, places in zip(at, kept, strict=True):
        messages[index] = pictures.attach(messages[index], places)
    return messages


def _kept(counts: Sequence[int]) -> list[range]:
    """Which pictures of each message stay, given the numbers of pictures per message. The choice depends on the
    conversation alone, so that it is the same after a restart."""
    total, first = 0, 0
    for count in counts:
        for _ in range(count):
            total += 1
            if total - first > MOST_IMAGES:
                first = total - FEW_IMAGES
    kept: list[range] = []
    for count in counts:
        kept.append(range(min(count, max(0, first)), count))
        first -= count
    return kept
