"""Puts the live outputs of a kernel's calls in order, each once, with gaps filled."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MethodType
from weakref import WeakMethod, ref

from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.executor import OutputSink

AHEAD = 10_000
"""How far past a gap outputs are kept. Those further on are collected when the gap is filled."""

ENDED = 64
"""How many calls that have ended are kept for outputs that still come, for example a figure that a timer draws."""


RECEIVED = 64
"""The most calls that the kernel is told of at once. It learns of the rest with the end of their run."""


class LiveOutputs:
    """The outputs of one call. They come as events, some of which may be lost, and are collected, which loses none."""

    def __init__(self, emit: OutputSink) -> None:
        self._emit = emit
        self._early: dict[int, OutputView] = {}
        self.next_index = 0
        self.collect_now = asyncio.Event()
        """Set when the call has ended and its outcome is here or has to be collected, or an output is missing."""
        self._outcome: Outcome | None = None
        self._outputs = 0

    @property
    def outcome(self) -> Outcome | None:
        """The call's outcome, if the kernel has sent it and no output is missing."""
        return self._outcome if self.next_index >= self._outputs else None

    def end(self, outcome: Outcome | None, outputs: int) -> None:
        """An event: the call has ended after so many outputs, whose events were before it. `outcome` is `None` where
        it has to be collected."""
        self.end_soon(outcome, outputs)
        self.collect_now.set()

    def end_soon(self, outcome: Outcome | None, outputs: int) -> None:
        """As `end`, from a reply, which may be here before the events of the outputs."""
        self._outcome, self._outputs = outcome, outputs
        self._note_whole()

    def _note_whole(self) -> None:
        if self.outcome is not None:
            self.collect_now.set()

    def receive(self, index: int, output: OutputView) -> None:
        """Take an output from an event. One that follows a gap waits until the gap is filled."""
        if index < self.next_index:
            return
        if index < self.next_index + AHEAD:
            self._early[index] = output
            self._flush()
        if self._early or index >= self.next_index:
            self.collect_now.set()
        self._note_whole()

    def hold_weakly(self, on_gone: Callable[[], None]) -> None:
        """The call has ended: hold the sink weakly from here on. `on_gone` is called when the sink is collected."""
        sink = self._emit
        held = (WeakMethod if isinstance(sink, MethodType) else ref)(sink, lambda _: on_gone())

        def emit(output: OutputView) -> None:
            if (sink := held()) is not None:
                sink(output)

        self._emit = emit

    def fill(self, first_index: int, outputs: Sequence[OutputView]) -> None:
        """Take collected outputs, which are without a gap from `first_index` on."""
        for index, output in enumerate(outputs, start=first_index):
            if index >= self.next_index:
                self._early[index] = output
        self._flush()

    def _flush(self) -> None:
        while (output := self._early.pop(self.next_index, None)) is not None:
            self.next_index += 1
            self._emit(output)


class AllLiveOutputs:
    """The live outputs of one kernel, by the approval of the call."""

    def __init__(self) -> None:
        self._open: dict[str, LiveOutputs] = {}
        self._ended: OrderedDict[str, LiveOutputs] = OrderedDict()
        self._received: deque[str] = deque(maxlen=RECEIVED)

    @contextmanager
    def open(self, approval_id: str, emit: OutputSink) -> Iterator[LiveOutputs]:
        outputs = self._open[approval_id] = LiveOutputs(emit)
        try:
            yield outputs
        finally:
            self._open.pop(approval_id, None)
            self._ended[approval_id] = outputs
            outputs.hold_weakly(lambda: self._forget(approval_id))
            while len(self._ended) > ENDED:
                self._ended.popitem(last=False)

    def _forget(self, approval_id: str) -> None:
        self._ended.pop(approval_id, None)

    def on_output(self, approval_id: str, index: int, output: OutputView) -> None:
        outputs = self._open.get(approval_id) or self._ended.get(approval_id)
        if outputs is not None:
            outputs.receive(index, output)

    def on_end(self, approval_id: str, outcome: Outcome | None, outputs: int) -> None:
        if (live := self._open.get(approval_id)) is not None:
            live.end(outcome, outputs)

    def note_received(self, approval_id: str) -> None:
        """The outcome of this call came with an event, which the kernel does not know yet."""
        self._received.append(approval_id)

    def take_received(self) -> tuple[str, ...]:
        """The calls that were noted since the last time."""
        received, self._received = tuple(self._received), deque(maxlen=RECEIVED)
        return received
