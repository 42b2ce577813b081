"""Writes recordings. Any number of processes may write to one file: each line is added under a lock."""

import os
from collections.abc import Callable, Iterable, Mapping
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
Gone = Callable[[bytes, Line], bool]
"""Whether a line, which is there as these bytes, goes."""


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
        rows = self.at_start.rows if self.at_start is not None else ()
        self._own = {row for row, _ in rows}
        """The lines that may be replaced."""
        self._old_decisions = [row for row, line in rows if isinstance(line, DecisionLine)]
        """Those that were there, and that no decision of this session has confirmed or replaced."""

    def add_turn(
        self, turn: Turn, settings: Settings, images: Mapping[str, str], *, replaces_later: bool = True
    ) -> None:
        """Write a turn in place of those of the same run and step, and of its later steps unless told otherwise; at
        step 0 its decisions go as well. `images` are base64 by digest. Raises `RecordingNotWritten`."""

        def gone(row: bytes, old: Line) -> bool:
            if row not in self._own or isinstance(old, Settings) or _run(old) != _run(turn):
                return False
            if isinstance(old, DecisionLine):
                if goes := replaces_later and turn.step == 0:
                    self._old_decisions = [one for one in self._old_decisions if one != row]
                return goes
            return old.step == turn.step or (replaces_later and old.step > turn.step)

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            save_images(self.path, turn.asked.all_images, images)
        except OSError as error:
            raise self._unwritable(error) from None
        self._write(turn, gone, settings)

    def add_decision(self, decision: DecisionLine) -> None:
        """Write a decision, in place of one on the same call that was there when the session began; nothing where that
        one is the same. Raises `RecordingNotWritten`."""
        replaced: list[bytes] = []

        def gone(row: bytes, old: Line) -> bool:
            same = isinstance(old, DecisionLine) and (
                (*_run(old), old.tool, old.digest) == (*_run(decision), decision.tool, decision.digest)
            )
            goes = same and not replaced and row in self._old_decisions
            if goes:
                replaced.append(row)
                self._old_decisions.remove(row)
            return goes

        self._write(decision, gone)

    def _write(self, line: Turn | DecisionLine, gone: Gone, settings: Settings | None = None) -> None:
        try:
            with FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=LOCK_SECONDS):
                self._write_locked(line, gone, settings)
        except Timeout:
            raise RecordingNotWritten(
                f"The recording {self.path} can't be written: another process has held its lock for "
                f"{LOCK_SECONDS:g} s. {_REMEDY}"
            ) from None
        except OSError as error:
            raise self._unwritable(error) from None
        except ConfigurationError as broken:  # somebody has changed the file meanwhile
            raise RecordingNotWritten(str(broken)) from None

    def _write_locked(self, line: Turn | DecisionLine, gone: Gone, settings: Settings | None) -> None:
        new = dumped(line)
        content = read(self.path) if self.path.exists() else _joined([dumped(self.header)])
        if len(new) > LONGEST_LINE or len(content) + len(new) > LARGEST_FILE:
            raise RecordingNotWritten(
                f"The recording {self.path} can't be written: a line may have {LONGEST_LINE >> 20} MiB and the file "
                f"{LARGEST_FILE >> 20} MiB, and this turn has {len(new) / 2**20:,.1f} MiB. What was recorded before is "
                "kept. Have the calls print less, or name another file with --record."
            )
        rows = parse(self.path, content).rows
        kept = [(index, row, old) for index, (row, old) in enumerate(rows) if not gone(row, old)]
        free = [index for index in range(len(rows)) if index not in {place for place, _, _ in kept}]
        same_run = [index for index, _, old in kept if not isinstance(old, Settings) and _run(old) == _run(line)]
        place = free[0] if free else same_run[-1] + 1 if same_run else len(rows)  # so that runs stay together
        used = {old.asked.settings for _, _, old in kept if isinstance(old, Turn)} | {settings.id if settings else ""}
        kept = [one for one in kept if not isinstance(one[2], Settings) or one[2].id in used]
        added = [dumped(settings)] if settings is not None and settings not in [old for _, old in rows] else []
        before = [row for index, row, _ in kept if index < place]
        after = [row for index, row, _ in kept if index >= place]
        head = content.partition(b"\n")[0]
        self._own.add(new)
        replace_file(Path(os.path.realpath(self.path)), _joined([head, *before, *added, new, *after]))

    def _unwritable(self, error: OSError) -> RecordingNotWritten:
        return RecordingNotWritten(f"The recording {self.path} can't be written: {error.strerror or error}. {_REMEDY}")


def _run(line: Turn | DecisionLine) -> tuple[str, int]:
    return line.prompt, line.occurrence


def _joined(rows: Iterable[bytes]) -> bytes:
    return b"".join(row + b"\n" for row in rows)
