"""The live outputs of the calls that a kernel is running: in order, each once, with gaps filled."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MethodType
from weakref import WeakMethod, ref

from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.executor import OutputSink

AHEAD = 10_000
"""How far past a gap outputs are kept. Those beyond are collected when the gap is filled."""

ENDED = 64
"""Calls of a kernel that have ended and may still show something: a timer of theirs draws a figure."""


class LiveOutputs:
    """One call's outputs. They come over IOPub, which may lose some, and from `collect`, which loses none."""

    def __init__(self, emit: OutputSink) -> None:
        self._emit = emit
        self._early: dict[int, OutputView] = {}
        self.next_index = 0
        self.news = asyncio.Event()
        """Set when the kernel should be asked: the call has ended, or an output is missing."""

    def receive(self, index: int, output: OutputView) -> None:
        """An output as it was published. One that follows a gap waits until the gap is filled."""
        if index < self.next_index:
            return
        if index < self.next_index + AHEAD:
            self._early[index] = output
            self._flush()
        if self._early or index >= self.next_index:
            self.news.set()

    def let_go(self, gone: Callable[[], None]) -> None:
        """The call has ended. Whoever takes its outputs is not kept for what may still come; `gone` is called when
        they are there no more."""
        sink = self._emit
        held = (WeakMethod if isinstance(sink, MethodType) else ref)(sink, lambda _: gone())

        def emit(output: OutputView) -> None:
            if (sink := held()) is not None:
                sink(output)

        self._emit = emit

    def repair(self, first_index: int, outputs: Sequence[OutputView]) -> None:
        """Outputs as the kernel holds them, counted from `first_index`."""
        for index, output in enumerate(outputs, start=first_index):
            if index >= self.next_index:
                self._early[index] = output
        self._flush()

    def _flush(self) -> None:
        while (output := self._early.pop(self.next_index, None)) is not None:
            self.next_index += 1
            self._emit(output)


class AllLiveOutputs:
    """The feeds of one kernel, by the approval of the call."""

    def __init__(self) -> None:
        self._feeds: dict[str, LiveOutputs] = {}
        self._ended: OrderedDict[str, LiveOutputs] = OrderedDict()

    def __len__(self) -> int:
        return len(self._feeds)

    @contextmanager
    def open(self, approval_id: str, emit: OutputSink) -> Iterator[LiveOutputs]:
        feed = self._feeds[approval_id] = LiveOutputs(emit)
        try:
            yield feed
        finally:
            self._feeds.pop(approval_id, None)
            self._ended[approval_id] = feed
            feed.let_go(lambda: self._forget(approval_id))
            while len(self._ended) > ENDED:
                self._ended.popitem(last=False)

    def _forget(self, approval_id: str) -> None:
        self._ended.pop(approval_id, None)

    def output(self, approval_id: str, index: int, output: OutputView) -> None:
        feed = self._feeds.get(approval_id) or self._ended.get(approval_id)
        if feed is not None:
            feed.receive(index, output)

    def ended(self, approval_id: str) -> None:
        if (feed := self._feeds.get(approval_id)) is not None:
            feed.news.set()
