"""Runs shell commands (POSIX) with live output and a time limit, and stops their process group when interrupted."""

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
    """The command's output: passed on as it arrives, kept up to a bound."""

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
        """The kept text, with a final line end unless it is empty."""
        note = f"\n... [output beyond {_KEPT:,} characters was not kept] ..." if self._dropped else ""
        text = "".join(self._kept) + note
        return text if not text or text.endswith("\n") else f"{text}\n"


class _Command(subprocess.Popen[bytes]):
    """A shell with a process group of its own. An interrupt while it starts, when nobody has it yet, stops it."""

    def __init__(self, command: str, folder: Path) -> None:
        try:
            super().__init__(
                ["/bin/sh" if not Path("/bin/bash").exists() else "/bin/bash", "-c", command],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except KeyboardInterrupt:
            if getattr(self, "pid", None) is not None:
                _stop(self)
            raise


def run_shell(root: Path, command: str, timeout: float = DEFAULT_TIMEOUT, *, emit: Callable[[str], None]) -> str:
    """Run a command in the folder. Returns its output and `Exit code: N`; `emit` gets the output as it arrives.

    `timeout` is in seconds, at most 600; when it is up, `ToolFailed` is raised with the output so far.
    `KeyboardInterrupt` passes through. In both cases all processes in the command's process group are stopped first.
    """
    seconds = min(timeout, MAX_TIMEOUT)
    output = _Output(emit)
    try:
        process = _Command(command, root)
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
    """Read until the command ends. Returns False if the time is up first."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        ended: float | None = None
        while True:
            now = time.monotonic()
            if now >= deadline:
                return False
            if ended is None and process.poll() is not None:
                # Background processes may hold the pipe open, so only what has already arrived is read.
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
    """Terminate the process group, then kill it."""
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
