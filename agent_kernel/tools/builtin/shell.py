"""Runs shell commands (POSIX) with live output and a time limit, inside walls where it is given some.

An interrupt stops the command's process group; inside walls, everything that it has started, as its end does, too.
"""

import codecs
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.calls import WallsFound
from agent_kernel.tools.walls.bubblewrap import MOST_PROCESSES
from agent_kernel.tools.walls.inside import processes_below, put_inside, where_it_met_them, why_not_there
from agent_kernel.tools.walls.room import Room

DEFAULT_TIMEOUT = 120
MAX_TIMEOUT = 600
_KEPT = 50 * 1024 * 1024
_READ = 64 * 1024
_GRACE = 2.0
_DRAIN = 0.2
_COUNT_SECONDS = 0.1
_ENDS_SECONDS = 30.0
"""How long walls may take to end what is inside them: they do it at once, on a machine that has the time."""


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
        if self._room:
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

    def __init__(self, command: str, folder: Path, found: WallsFound, room: Room | None) -> None:
        self.is_inside = room is not None
        self._counted = time.monotonic()
        words = ["/bin/sh" if not Path("/bin/bash").exists() else "/bin/bash", "-c", command]
        try:
            with put_inside(found, room, words) if room is not None else nullcontext((words, ())) as (line, files):
                super().__init__(
                    line,
                    cwd=folder,
                    env=dict(room.environment) if room is not None else None,
                    pass_fds=files,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except KeyboardInterrupt:
            if getattr(self, "pid", None) is not None:
                _stop(self)
            raise

    def has_too_many_processes(self) -> bool:
        """Looked at now and then: the system's own limit does not hold for root."""
        if not self.is_inside or time.monotonic() - self._counted < _COUNT_SECONDS:
            return False
        found = processes_below(self.pid)
        self._counted = time.monotonic()
        return len(found) > MOST_PROCESSES + 2  # without those of the walls


NO_WALLS = WallsFound("none")


def run_shell(
    root: Path,
    command: str,
    timeout: float = DEFAULT_TIMEOUT,
    *,
    emit: Callable[[str], None],
    found: WallsFound = NO_WALLS,
    room: Room | None = None,
) -> str:
    """Run a command in the folder. Returns its output and `Exit code: N`; `emit` gets the output as it arrives.

    With a `room` it runs inside the walls that were `found`. `timeout` is in seconds, at most 600; when it is up, or
    where walls have stopped the command, `ToolFailed` is raised with the output so far. `KeyboardInterrupt` passes
    through. In all cases the command's processes are stopped first.
    """
    seconds = min(timeout, MAX_TIMEOUT)
    output = _Output(emit)
    try:
        process = _Command(command, root, found, room)
    except (OSError, ValueError) as error:
        raise ToolFailed(f"The command could not be started: {error}.") from None
    with process:
        try:
            unfinished = _follow(process, output, time.monotonic() + seconds)
        except BaseException:
            _stop(process)
            raise
        if unfinished is not None:
            _stop(process, at_once=unfinished == _TOO_MANY)
    text = output.lines()
    if unfinished is not None:
        failure = unfinished.format(seconds=seconds)
    elif room is not None and process.returncode != 0 and (met := where_it_met_them(text)) is not None:
        why = why_not_there(found, room, met)
        failure = f"stopped by the walls: {met}{why}\n{_exit(process.returncode)}"
    else:
        return text + _exit(process.returncode)
    raise ToolFailed(text + failure, shown=failure)


_TIME_IS_UP = "Stopped after {seconds:g} s, with every process of the command."
_TOO_MANY = f"stopped by the walls: more than {MOST_PROCESSES} processes."


def _follow(process: _Command, output: _Output, deadline: float) -> str | None:
    """Read until the command ends. Returns why it is to be stopped, if it is."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        ended: float | None = None
        while True:
            now = time.monotonic()
            if now >= deadline:
                return _TIME_IS_UP
            if process.has_too_many_processes():
                return _TOO_MANY
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
                return None if process.returncode is not None else _TIME_IS_UP
            output.feed(raw)
    output.feed(b"", final=True)
    return None


def _stop(process: _Command, *, at_once: bool = False) -> None:
    """Terminate the command's processes, then kill them; `at_once` inside walls where they would only become more."""
    if process.is_inside:
        _stop_inside(process, () if at_once else processes_below(process.pid))
        return
    for wanted in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, wanted)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
            if wanted is signal.SIGTERM and not _group_alive(process.pid):
                return


def _stop_inside(process: _Command, inside: Sequence[int]) -> None:
    """The walls end when the command does, or when they are terminated, and with them all that is inside."""
    for pid in inside:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
    for stop, seconds in ((process.terminate, _GRACE if inside else 0.0), (process.kill, _ENDS_SECONDS)):
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return
        stop()


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
