"""The ZMQ wire to a kernel: messages leave at once, also to one that reads late, and no reply is overlooked."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import zmq
from jupyter_client.session import Session
from zmq.eventloop.zmqstream import ZMQStream

from agent_kernel_server.kernels.zmq import ZmqWire

SECONDS = 20.0
ON_ITS_WAY_SECONDS = 0.005
"""ZMQ looks for what has come at most once in a millisecond."""
LONG = "x" * 300_000


class Peer:
    """A kernel's channels, which it reads when it is told to. In place of Jupyter's manager, it makes the server's
    sockets too."""

    def __init__(self, kept: int) -> None:
        """`kept`: so many messages a socket keeps where nobody reads them; the system's own buffers keep small ones."""
        self._kept = kept
        self.session = Session(key=b"a key of the tests")
        self._context = zmq.Context()
        self._sockets = {name: self._socket(zmq.ROUTER) for name in ("shell", "control")}
        self._ports = {name: one.bind_to_random_port("tcp://127.0.0.1") for name, one in self._sockets.items()}

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.sndhwm = socket.rcvhwm = self._kept
        socket.sndbuf = socket.rcvbuf = 4_096
        return socket

    def _connect(self, channel: str) -> ZMQStream:
        socket = self._socket(zmq.DEALER)
        socket.connect(f"tcp://127.0.0.1:{self._ports[channel]}")
        return ZMQStream(socket)

    def connect_shell(self) -> ZMQStream:
        return self._connect("shell")

    def connect_control(self) -> ZMQStream:
        return self._connect("control")

    def read(self, channel: str, *, answers: bool = True) -> dict[str, Any]:
        """The next message. The event loop stands still until it is here, and its answer with the server."""
        socket = self._sockets[channel]
        assert socket.poll(SECONDS * 1000), "nothing came"
        identities, parts = self.session.feed_identities(socket.recv_multipart())
        message = self.session.deserialize(parts)
        if answers:
            self.session.send(socket, "reply", {"to": message["content"]["number"]}, message, identities)
            time.sleep(ON_ITS_WAY_SECONDS)
        return message

    def close(self) -> None:
        self._context.destroy(linger=0)


@pytest.fixture
async def peer(request: pytest.FixtureRequest) -> AsyncIterator[Peer]:
    peer = Peer(getattr(request, "param", 1_000))
    yield peer
    peer.close()


@pytest.mark.parametrize("peer", [2], indirect=True)
async def test_what_a_kernel_does_not_read_holds_nothing_up_and_arrives_in_order(peer: Peer) -> None:
    wire = ZmqWire(peer, lambda _, __: None, logging.getLogger())
    sent = [wire.send("shell", "request", {"number": number, "text": LONG}) for number in range(40)]
    read = [await asyncio.to_thread(peer.read, "shell", answers=False) for _ in sent]
    assert [message["header"]["msg_id"] for message in read] == sent
    assert [message["content"]["number"] for message in read] == list(range(40))
    wire.close()


@pytest.mark.parametrize("channel", ["shell", "control"])
async def test_a_reply_that_comes_while_something_is_sent_is_received(peer: Peer, channel: str) -> None:
    replies: asyncio.Queue[tuple[str, object]] = asyncio.Queue()
    wire = ZmqWire(peer, lambda message_id, content: replies.put_nowait((message_id, content)), logging.getLogger())
    for number in range(20):
        sent = wire.send(channel, "request", {"number": number})
        peer.read(channel)
        wire.send(channel, "request", {"number": -number})
        assert await asyncio.wait_for(replies.get(), SECONDS) == (sent, {"to": number})
        peer.read(channel, answers=False)
    wire.close()


async def test_a_wire_that_is_closed_after_a_message_looks_at_nothing_more(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    wire = ZmqWire(peer, lambda _, __: None, logging.getLogger())
    wire.send("shell", "request", {"number": 0})
    wire.close()
    await asyncio.sleep(0)
    assert caplog.records == []
