"""Writes recordings. Any number of processes may write to one file: each line is added under a lock."""

import os
from collections.abc import Iterable, Mapping
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
    Recording,
    Settings,
    Turn,
    dumped,
    load,
    parse,
    read,
)
from agent_kernel.models.recordings.pictures import images_of, save
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
        self._header = header
        self.at_start: Recording | None = load(path) if path.exists() else None
        """The recording as it was when the session began."""
        self._old_decisions = list(self.at_start.decisions) if self.at_start is not None else []
        """Those that were there, and that no decision of this session has kept or replaced."""
        self._replaceable = {row for row, _ in self.at_start.rows} if self.at_start is not None else set()

    @property
    def header(self) -> Header:
        return self.at_start.header if self.at_start is not None else self._header

    def add_turn(
        self, turn: Turn, settings: Settings, images: Mapping[str, str], *, replaces_later: bool = True
    ) -> None:
        """Write a turn in place of those of the same run and step, and of its later steps unless told otherwise; at
        step 0 its decisions go as well. `images` are base64 by digest. Raises `RecordingNotWritten`."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            save(self.path, images_of(turn.asked), images)
        except OSError as error:
            raise self._unwritable(error) from None
        self._write(turn, settings, replaces_later)

    def add_decision(self, decision: DecisionLine) -> None:
        """Write a decision, in place of those on the same call that were there when the session began. Raises
        `RecordingNotWritten`."""
        self._write(decision, None, replaces_later=False)

    def keep_decision(self, decision: DecisionLine) -> None:
        """As `add_decision`, for a call of a turn that is kept: its decision is there, unless it is another now."""
        if decision in self._old_decisions:
            self._old_decisions.remove(decision)
        else:
            self.add_decision(decision)

    def _write(self, line: Turn | DecisionLine, settings: Settings | None, replaces_later: bool) -> None:
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=LOCK_SECONDS)
        try:
            with lock:
                self._write_locked(line, settings, replaces_later)
        except Timeout:
            raise RecordingNotWritten(
                f"The recording {self.path} can't be written: another process has held its lock for "
                f"{LOCK_SECONDS:g} s. {_REMEDY}"
            ) from None
        except OSError as error:
            raise self._unwritable(error) from None
        except ConfigurationError as broken:  # somebody has changed the file meanwhile
            raise RecordingNotWritten(str(broken)) from None

    def _write_locked(self, line: Turn | DecisionLine, settings: Settings | None, replaces_later: bool) -> None:
        new = dumped(line)
        content = read(self.path) if self.path.exists() else _joined([dumped(self._header)])
        if len(new) > LONGEST_LINE or len(content) + len(new) > LARGEST_FILE:
            raise RecordingNotWritten(
                f"The recording {self.path} can't be written: a line may have {LONGEST_LINE >> 20} MiB and the file "
                f"{LARGEST_FILE >> 20} MiB, and this turn has {len(new) / 2**20:,.1f} MiB. What was recorded before is "
                "kept. Have the calls print less, or name another file with --record."
            )
        there = parse(self.path, content)
        gone = [
            row in self._replaceable
            and (
                _replaces(line, old, replaces_later) or (old in self._old_decisions and _is_on_the_same_call(line, old))
            )
            for row, old in there.rows
        ]
        self._old_decisions = [one for one in self._old_decisions if not _is_on_the_same_call(line, one)]
        place = gone.index(True) if True in gone else _after_its_run(line, there)
        self._replaceable.add(new)
        kept = [(index, row, old) for index, (row, old) in enumerate(there.rows) if not gone[index]]
        used = {old.asked.settings for _, _, old in kept if isinstance(old, Turn)}
        used |= {settings.id} if settings is not None else set()
        kept = [one for one in kept if not isinstance(one[2], Settings) or one[2].id in used]
        added = [dumped(settings)] if settings is not None and settings.id not in there.settings else []
        before = [row for index, row, _ in kept if index < place]
        after = [row for index, row, _ in kept if index >= place]
        head = content.partition(b"\n")[0]
        replace_file(Path(os.path.realpath(self.path)), _joined([head, *before, *added, new, *after]))

    def _unwritable(self, error: OSError) -> RecordingNotWritten:
        return RecordingNotWritten(f"The recording {self.path} can't be written: {error.strerror or error}. {_REMEDY}")


def _replaces(line: Turn | DecisionLine, old: Line, replaces_later: bool) -> bool:
    """Whether a new line takes the place of an old one."""
    if not isinstance(line, Turn) or isinstance(old, Settings):
        return False
    if (old.prompt, old.occurrence) != (line.prompt, line.occurrence):
        return False
    if isinstance(old, DecisionLine):
        return replaces_later and line.step == 0
    return old.step == line.step or (replaces_later and old.step > line.step)


def _is_on_the_same_call(line: Turn | DecisionLine, old: Line) -> bool:
    return (
        isinstance(line, DecisionLine)
        and isinstance(old, DecisionLine)
        and (line.prompt, line.occurrence, line.tool, line.digest) == (old.prompt, old.occurrence, old.tool, old.digest)
    )


def _after_its_run(line: Turn | DecisionLine, there: Recording) -> int:
    """The place behind what is recorded of the same run, so that runs stay together; else the end."""
    run = (line.prompt, line.occurrence)
    same = [
        index
        for index, (_, old) in enumerate(there.rows)
        if not isinstance(old, Settings) and (old.prompt, old.occurrence) == run
    ]
    return same[-1] + 1 if same else len(there.rows)


def _joined(rows: Iterable[bytes]) -> bytes:
    return b"".join(row + b"\n" for row in rows)
