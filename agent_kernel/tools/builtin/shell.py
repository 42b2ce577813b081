"""Running a shell command (POSIX): live output, a time limit, and nothing left running when it is stopped."""

import codecs
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agent_kernel.errors import ToolFailed

DEFAULT_TIMEOUT = 120
MAX_TIMEOUT = 600
_KEPT = 50 * 1024 * 1024
_READ = 64 * 1024
_GRACE = 2.0
_DRAIN = 0.2


class _Output:
    """What the command printed: passed on as it comes, kept up to a bound."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept: list[str] = []
        self._room = _KEPT
        self._dropped = False

    def feed(self, raw: bytes, final: bool = False) -> None:
        text = self._decoder.decode(raw, final)
        if not text:
            return
        self._emit(text)
        self._dropped = self._dropped or len(text) > self._room
        self._kept.append(text[: self._room])
        self._room -= len(self._kept[-1])

    def lines(self) -> str:
        """The kept text, ending with a line end unless it is empty."""
        note = f"\n... [output beyond {_KEPT:,} characters was not kept] ..." if self._dropped else ""
        text = "".join(self._kept) + note
        return text if not text or text.endswith("\n") else f"{text}\n"


def run_shell(root: Path, command: str, timeout: float = DEFAULT_TIMEOUT, *, emit: Callable[[str], None]) -> str:
    """Run a command in the folder; its output, then `Exit code: N`. `emit` gets the output as it comes.

    `timeout` is in seconds, at most 600. Raises `ToolFailed` with the output so far where the time is up, and lets
    `KeyboardInterrupt` through; in both cases every process that the command started is stopped first, as far as it
    stayed in the command's process group.
    """
    seconds = min(timeout, MAX_TIMEOUT)
    output = _Output(emit)
    try:
        process = subprocess.Popen(
            ["/bin/sh" if not Path("/bin/bash").exists() else "/bin/bash", "-c", command],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ToolFailed(f"The command could not be started: {error}.") from None
    with process:
        try:
            finished = _follow(process, output, time.monotonic() + seconds)
        except BaseException:
            _stop(process)
            raise
        if not finished:
            _stop(process)
    if not finished:
        raise ToolFailed(f"{output.lines()}Stopped after {seconds:g} s, with every process of the command.")
    return output.lines() + _exit(process.returncode)


def _follow(process: subprocess.Popen[bytes], output: _Output, deadline: float) -> bool:
    """Read until the command ends. False where the time was up first."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        ended: float | None = None
        while True:
            now = time.monotonic()
            if now >= deadline:
                return False
            if ended is None and process.poll() is not None:
                # What it left in the background may hold the pipe open: what is already there is read, no more.
                ended = now
            if ended is not None and now - ended > _DRAIN:
                break
            if not selector.select(min(0.05, deadline - now)):
                if ended is not None:
                    break
                continue
            raw = os.read(process.stdout.fileno(), _READ)
            if not raw:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
                output.feed(b"", final=True)
                return process.returncode is not None
            output.feed(raw)
    output.feed(b"", final=True)
    return True


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the whole process group: asked first, then made to."""
    for wanted in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, wanted)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
            if wanted is signal.SIGTERM and not _group_alive(process.pid):
                return


def _group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _exit(code: int) -> str:
    if code >= 0:
        return f"Exit code: {code}"
    try:
        return f"Stopped by {signal.Signals(-code).name}"
    except ValueError:
        return f"Stopped by signal {-code}"
