"""`EventTap` receives a kernel's events, which it does not read: it imports nothing that does."""

import asyncio
from collections.abc import Callable
from typing import Any

import zmq
from jupyter_server.gateway.managers import GatewayKernelManager
from zmq.eventloop.zmqstream import ZMQStream

from agent_kernel.protocol.kernel_topics import EVENT_TOPIC, EVENT_TYPE

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"
"""The id of Jupyter's events of kernels that start and end."""
START_TRIES, START_PAUSE = 100, 0.05
"""A kernel's start is reported before it can be looked up: how often that is tried, and the seconds in between."""

Frames = list[bytes]
_HEADER, _TYPE = 4, EVENT_TYPE.encode()
"""How many frames a message has up to its header, and what an event has in its header."""


class EventTap:
    """A SUB socket that is filtered to the events' topic until it is read.

    It stays connected over restarts, because a kernel keeps its ports. For the event loop.
    """

    def __init__(self, kernel: Any) -> None:
        """`kernel`: Jupyter's manager of one kernel."""
        self._held: Frames | None = None
        self._stream: ZMQStream = kernel.connect_iopub()
        self._stream.setsockopt(zmq.SUBSCRIBE, EVENT_TOPIC)
        self._stream.setsockopt(zmq.UNSUBSCRIBE, b"")

    def wait(self, on_first: Callable[[], None]) -> None:
        """Call `on_first` once an event has come. It and those after it are kept for `read`."""

        def hold(frames: Frames) -> None:
            if _is_event(frames):
                self._held = frames
                self._stream.on_recv(None)  # what comes now stays in the socket's queue
                on_first()

        self._stream.on_recv(hold)

    def read(self, receive: Callable[[Frames], None]) -> None:
        """Pass all that the kernel publishes to `receive` from the event loop's next turn on, what was kept first."""
        self._stream.setsockopt(zmq.SUBSCRIBE, b"")

        def resume() -> None:
            if self._stream.closed():
                return
            if self._held is not None:
                receive(self._held)
                self._held = None
            self._stream.on_recv(receive)

        self._stream.on_recv(None)
        asyncio.get_running_loop().call_soon(resume)

    def close(self) -> None:
        if not self._stream.closed():
            self._stream.on_recv(None)
            self._stream.close(linger=0)


def _is_event(frames: Frames) -> bool:
    """Not so for what arrived before the filter was set, and for the welcome that some kernels send to subscribers."""
    return frames[0] == EVENT_TOPIC and any(_TYPE in frame for frame in frames[:_HEADER])


def is_remote(kernel: Any) -> bool:
    """Whether this, Jupyter's manager of one kernel, is of a kernel at a gateway."""
    return isinstance(kernel, GatewayKernelManager)


async def until_known(manager: Any, kernel_id: str) -> None:
    """Wait until a kernel whose start was reported can be looked up, if it ever can."""
    for _ in range(START_TRIES):
        if kernel_id in manager:
            return
        await asyncio.sleep(START_PAUSE)
