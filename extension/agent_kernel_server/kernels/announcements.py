"""Announcements hears one kernel's own messages, and only those.

A SUB socket that is filtered to the topic `agent_kernel` costs nothing for the rest of what a kernel publishes. It
stays connected over restarts, because a kernel keeps its ports.
"""

from collections.abc import Callable
from logging import Logger
from typing import Any

import zmq
from pydantic import ValidationError
from zmq.eventloop.zmqstream import ZMQStream

from agent_kernel_server.kernels.messages import EVENT_TOPIC, EVENT_TYPE, KernelEvent, kernel_event_adapter


class Announcements:
    def __init__(self, kernel: Any, deliver: Callable[[KernelEvent], None], log: Logger) -> None:
        """`kernel`: Jupyter's manager of one kernel. `deliver` is called in the event loop."""
        self._deliver = deliver
        self._log = log
        self._session = kernel.session.clone()
        self._stream: ZMQStream = kernel.connect_iopub()
        self._stream.setsockopt(zmq.SUBSCRIBE, EVENT_TOPIC)
        self._stream.setsockopt(zmq.UNSUBSCRIBE, b"")
        self._stream.on_recv(self._receive)

    def _receive(self, frames: list[bytes]) -> None:
        if frames[0] != EVENT_TOPIC:
            return  # arrived before the filter was set
        try:
            _, parts = self._session.feed_identities(frames)
            message = self._session.deserialize(parts)
            if message["msg_type"] != EVENT_TYPE:
                return
            event = kernel_event_adapter.validate_python(message["content"])
        except (ValueError, TypeError, KeyError, ValidationError) as error:
            self._log.debug("A frame from a kernel was dropped: %s", error)
            return
        self._deliver(event)

    def close(self) -> None:
        if not self._stream.closed():
            self._stream.on_recv(None)
            self._stream.close(linger=0)
