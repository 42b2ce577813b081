"""A program of its own that starts an MCP server over standard input and output: `launcher.py MOST COMMAND…`

It ends the server with all that the server has started, at the latest when the Jupyter server dies, which ends the
input. A message of more than MOST bytes, which would have to be held in memory, ends the server too. Of what the server
says on standard error it passes on the end.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

TAIL = 2_000
GRACE_SECONDS = 2.0


def main(most: int, command: list[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # unlike an ignored signal, the server does not inherit that
    try:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}")
        return
    tail = bytearray()
    work = ((feed, (server,)), (keep_end, (server, tail)), (pass_on, (server, most, tail)))
    threads = [threading.Thread(target=target, args=arguments, daemon=True) for target, arguments in work]
    for thread in threads:
        thread.start()
    server.wait()
    for thread in threads[1:]:
        thread.join(0.5)
    with contextlib.suppress(OSError):
        os.write(2, bytes(tail[-TAIL:]))


def feed(server: "subprocess.Popen[bytes]") -> None:
    """Pass on the input. Its end is the server's."""
    assert server.stdin is not None
    with contextlib.suppress(OSError):
        while piece := os.read(0, 65_536):
            server.stdin.write(piece)
            server.stdin.flush()
    with contextlib.suppress(OSError):
        server.stdin.close()
    time.sleep(GRACE_SECONDS)
    end(server)


def pass_on(server: "subprocess.Popen[bytes]", most: int, tail: bytearray) -> None:
    """Pass on the output, whose lines are messages."""
    assert server.stdout is not None
    length = 0
    with contextlib.suppress(OSError):
        while piece := os.read(server.stdout.fileno(), 65_536):
            last = piece.rfind(b"\n")
            length = length + len(piece) if last < 0 else len(piece) - last - 1
            if length > most:
                tail[:] = f"It sent a message of more than {most // 1_000_000} MB.".encode()
                end(server)
                return
            view = memoryview(piece)
            while view:
                view = view[os.write(1, view) :]


def keep_end(server: "subprocess.Popen[bytes]", tail: bytearray) -> None:
    assert server.stderr is not None
    with contextlib.suppress(OSError):
        while piece := os.read(server.stderr.fileno(), 65_536):
            tail += piece
            del tail[:-TAIL]


def end(server: "subprocess.Popen[bytes]") -> None:
    os.killpg(0, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(GRACE_SECONDS)
    if server.poll() is None:
        server.kill()


if __name__ == "__main__":
    if os.getpgrp() != os.getpid():
        os.setsid()
    try:
        main(int(sys.argv[1]), sys.argv[2:])
    finally:
        sys.stdout.flush()
        os.killpg(0, signal.SIGKILL)  # whatever the server has left
