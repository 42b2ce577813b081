"""Captures the file descriptors 1 and 2 during a call (POSIX): the output of child processes and C code."""

import _thread
import codecs
import contextlib
import os
import selectors
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Literal

StreamName = Literal["stdout", "stderr"]
STREAMS: dict[int, StreamName] = {1: "stdout", 2: "stderr"}
DRAIN_SECONDS = 10.0
"""How long the end of a call waits at most for output that was printed before it. The output of processes that live on
is not waited for."""

_READ = 65_536


@contextlib.contextmanager
def captured_descriptors(write: Callable[[StreamName, str], None]) -> Iterator[bool]:
    """Send what is printed on 1 and 2 to `write(name, text)`, called in a thread. Yields whether that is possible."""
    if sys.platform == "win32":
        yield False
        return
    try:
        saved = {descriptor: os.dup(descriptor) for descriptor in STREAMS}
    except OSError:
        # The process may have been started without these descriptors.
        yield False
        return
    readers: dict[int, StreamName] = {}
    for descriptor, name in STREAMS.items():
        reader, writer = os.pipe()
        os.dup2(writer, descriptor)
        os.close(writer)
        readers[reader] = name
    ended, end = os.pipe()
    drained = threading.Event()
    pump = _Pump(readers, ended, write, drained)
    # Not `Thread.start`, which waits until the new thread has had the interpreter: a millisecond each time.
    _thread.start_new_thread(pump.run, ())
    try:
        yield True
    finally:
        for descriptor, original in saved.items():
            os.dup2(original, descriptor)
            os.close(original)
        os.close(end)
        drained.wait(DRAIN_SECONDS)


class _Pump:
    """Reads until all writers have closed the pipe. It goes on after the call: otherwise a process that the call left
    behind would block or die at its next line."""

    def __init__(
        self,
        readers: dict[int, StreamName],
        ended: int,
        write: Callable[[StreamName, str], None],
        drained: threading.Event,
    ) -> None:
        """`ended` is a descriptor that is readable once the call has ended; `drained` is set when all output until then
        has been written."""
        self._readers = readers
        self._ended = ended
        self._write = write
        self._drained = drained
        self._decoders = {reader: codecs.getincrementaldecoder("utf-8")("replace") for reader in readers}

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for reader in (self._ended, *self._readers):
                selector.register(reader, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    if not self._read(key.fd):
                        selector.unregister(key.fd)
                        os.close(key.fd)

    def _read(self, reader: int) -> bool:
        """Whether more can come."""
        if reader == self._ended:
            for one in list(self._readers):
                self._drain(one)
            self._drained.set()
            return False
        data = os.read(reader, _READ)
        self._write(self._readers[reader], self._decoders[reader].decode(data, final=not data))
        if not data:
            del self._readers[reader]
        return bool(data)

    def _drain(self, reader: int) -> None:
        """Read what is in the pipe now, and nothing that comes later."""
        import fcntl  # not there on Windows, where this is never called
        import termios

        size = bytearray(struct.calcsize("i"))
        fcntl.ioctl(reader, termios.FIONREAD, size)
        (waiting,) = struct.unpack("i", size)
        while waiting > 0:
            data = os.read(reader, min(waiting, _READ))
            self._write(self._readers[reader], self._decoders[reader].decode(data))
            waiting -= len(data)
