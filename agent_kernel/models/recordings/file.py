"""Writes recordings. Any number of processes may write to one file: each line is added under a lock."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from filelock import FileLock, Timeout

from agent_kernel.errors import ConfigurationError, RecordingNotWritten
from agent_kernel.models.recordings.format import (
    LARGEST_FILE,
    LONGEST_LINE,
    SUFFIX,
    DecisionLine,
    Header,
    Line,
    Settings,
    Turn,
    dumped,
    load,
    parse,
    read,
    save_images,
)
from agent_kernel.tools.builtin.safe_open import replace_file

LOCK_SECONDS = 30.0
_REMEDY = (
    "What was recorded before is kept. Make room or give the right to write there, and record again (agent-kernel "
    "record NOTEBOOK), or name another file with --record."
)


class RecordingFile:
    """One file for one session of recording. What was in it when the session began, and what this session wrote, is
    replaced by newer turns of the same run; what others write meanwhile stays."""

    def __init__(self, path: Path, header: Header) -> None:
        """`header` is that of a new file. Raises `ConfigurationError` for a path that can't be a recording's."""
        if path.suffix != SUFFIX:
            raise ConfigurationError(f"A recording's name ends in {SUFFIX}: {path.stem}{SUFFIX}, not {path.name}.")
        self.path = path
        self.at_start = load(path) if path.exists() else None
        """The recording as it was when the session began."""
        self.header = self.at_start.header if self.at_start is not None else header
        self._old = {row for row, _ in (self.at_start.rows if self.at_start is not None else ())}
        """The lines that were there."""
        self._own = set(self._old)
        """These, and those of this session."""

    def add_turn(
        self, turn: Turn, settings: Settings, images: Mapping[str, str], *, replaces_later: bool = True
    ) -> None:
        """Write a turn in place of those of the same run and step, and of its later steps unless told otherwise; at
        step 0 its decisions go as well. `images` are base64 by digest. Raises `RecordingNotWritten`."""

        def goes(old: Line) -> bool:
            if isinstance(old, Turn):
                return old.step == turn.step or (replaces_later and old.step > turn.step)
            return replaces_later and turn.step == 0

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            save_images(self.path, turn.asked.all_images, images)
        except OSError as error:
            raise self._unwritable(error) from None
        self._write(turn, self._own, goes, settings)

    def add_decision(self, decision: DecisionLine) -> None:
        """Write a decision, in place of those on the same call that were there when the session began. Raises
        `RecordingNotWritten`."""
        call = (decision.tool, decision.digest)
        self._write(decision, self._old, lambda old: isinstance(old, DecisionLine) and (old.tool, old.digest) == call)

    def _write(
        self,
        line: Turn | DecisionLine,
        own: Collection[bytes],
        goes: Callable[[Line], bool],
        settings: Settings | None = None,
    ) -> None:
        """Add a line, in place of the lines of the same run among `own` that go."""
        try:
            with FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=LOCK_SECONDS):
                content = read(self.path) if self.path.exists() else _joined([dumped(self.header)])
                self._check_size(dumped(line), content)
                rows = parse(self.path, content).rows
                same_run = [_run(old) == _run(line) for _, old in rows]
                gone = [same and row in own and goes(old) for same, (row, old) in zip(same_run, rows, strict=True)]
                place = gone.index(True) if any(gone) else _after_last(same_run)
                kept = [pair for pair, is_gone in zip(rows[place:], gone[place:], strict=True) if not is_gone]
                lines = _with_settings([*rows[:place], (dumped(line), line), *kept], settings)
                head = content.partition(b"\n")[0]
                replace_file(Path(os.path.realpath(self.path)), _joined([head, *(row for row, _ in lines)]))
        except Timeout:
            raise RecordingNotWritten(
                f"The recording {self.path} can't be written: another process has held its lock for "
                f"{LOCK_SECONDS:g} s. {_REMEDY}"
            ) from None
        except OSError as error:
            raise self._unwritable(error) from None
        except ConfigurationError as broken:  # somebody has changed the file meanwhile
            raise RecordingNotWritten(str(broken)) from None
        self._own.add(dumped(line))
        self._old.discard(dumped(line))

    def _check_size(self, new: bytes, content: bytes) -> None:
        if len(new) > LONGEST_LINE or len(content) + len(new) > LARGEST_FILE:
            raise RecordingNotWritten(
                f"The recording {self.path} can't be written: a line may have {LONGEST_LINE >> 20} MiB and the file "
                f"{LARGEST_FILE >> 20} MiB, and this turn has {len(new) / 2**20:,.1f} MiB. What was recorded before is "
                "kept. Have the calls print less, or name another file with --record."
            )

    def _unwritable(self, error: OSError) -> RecordingNotWritten:
        return RecordingNotWritten(f"The recording {self.path} can't be written: {error.strerror or error}. {_REMEDY}")


def _with_settings(lines: list[tuple[bytes, Line]], added: Settings | None) -> list[tuple[bytes, Line]]:
    """The lines with those settings that turns refer to, each once, before its first turn."""
    known = {line.id: (row, line) for row, line in lines if isinstance(line, Settings)}
    if added is not None:
        known.setdefault(added.id, (dumped(added), added))
    placed: list[tuple[bytes, Line]] = []
    for row, line in lines:
        if isinstance(line, Turn) and line.asked.settings in known:
            placed.append(known.pop(line.asked.settings))
        if not isinstance(line, Settings):
            placed.append((row, line))
    return placed


def _after_last(same_run: list[bool]) -> int:
    """The place behind the last line of a run, so that runs stay together; the end where there is none."""
    return len(same_run) - same_run[::-1].index(True) if True in same_run else len(same_run)


def _run(line: Line) -> tuple[str, int] | None:
    return None if isinstance(line, Settings) else (line.prompt, line.occurrence)


def _joined(rows: Iterable[bytes]) -> bytes:
    return b"".join(row + b"\n" for row in rows)
