"""What child processes and C code print past Python: the file descriptors 1 and 2, for the time of a call (POSIX)."""

import codecs
import contextlib
import os
import selectors
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Literal

StreamName = Literal["stdout", "stderr"]
STREAMS: dict[int, StreamName] = {1: "stdout", 2: "stderr"}
DRAIN_SECONDS = 0.2
"""How long a call's end waits for text that is on its way. A process that lives on is not waited for."""

_READ = 65_536


@contextlib.contextmanager
def captured_descriptors(write: Callable[[StreamName, str], None]) -> Iterator[bool]:
    """Send what is printed on 1 and 2 to `write(name, text)`, called in a thread. False where that can't be done."""
    if sys.platform == "win32":
        yield False
        return
    try:
        saved = {descriptor: os.dup(descriptor) for descriptor in STREAMS}
    except OSError:
        # A process may have been started without them.
        yield False
        return
    readers: dict[int, StreamName] = {}
    for descriptor, name in STREAMS.items():
        reader, writer = os.pipe()
        os.dup2(writer, descriptor)
        os.close(writer)
        readers[reader] = name
    pump = threading.Thread(target=_pump, args=(readers, write), name="agent-kernel-descriptors", daemon=True)
    pump.start()
    try:
        yield True
    finally:
        for descriptor, original in saved.items():
            os.dup2(original, descriptor)
            os.close(original)
        pump.join(DRAIN_SECONDS)


def _pump(readers: dict[int, StreamName], write: Callable[[StreamName, str], None]) -> None:
    """Read until nobody can write any more. It goes on after the call, or a process that the call left behind would
    be stopped by its next line."""
    decoders = {reader: codecs.getincrementaldecoder("utf-8")("replace") for reader in readers}
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                reader = key.fd
                data = os.read(reader, _READ)
                write(readers[reader], decoders[reader].decode(data, final=not data))
                if not data:
                    selector.unregister(reader)
                    os.close(reader)
