"""`Backups`: the old contents of files that calls have changed, kept in memory for undoing the changes."""

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.vocabulary import ChangeState
from agent_kernel.tools.builtin.changes import FileChange, carry_out
from agent_kernel.tools.builtin.safe_open import read_bytes, remove_file, replace_file

KEPT_CALLS = 50
KEPT_BYTES = 5 * 1024 * 1024
"""The size of the largest file that can be put back."""
KEPT_IN_ALL = 50 * 1024 * 1024
"""Bytes of all old contents together; the oldest are dropped first."""
CHANGED = "The file was changed since. Nothing was put back."
NO_LONGER_KEPT = "What was there before is no longer kept: only the kernel or server that did it has it."


@dataclass(frozen=True, slots=True)
class KeptChange:
    """A change of a file that can be undone, or was. Once undone, `before` and `after` have changed places."""

    approval_id: str
    target: Path
    before: bytes | None
    """What comes back; `None` where there was no file."""
    changed_at: str
    """When the old file was last changed, in ISO 8601; empty if there was none."""
    after: str | None
    """The SHA-256 of the content that has to be there; `None` where no file may be."""
    undone: bool = False

    @property
    def state(self) -> ChangeState:
        """Reads the file."""
        if self.undone:
            return "undone"
        content = _read(self.target)
        return "as_left" if content is not None and _digest(content) == self.after else "changed"


class Backups:
    """Indexed by the approval's id. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, KeptChange] = OrderedDict()

    def carry_out(self, approval_id: str | None, change: FileChange, path: str) -> str:
        """Make the change, and keep the old content. Returns the text for the model. Raises `ToolFailed`."""
        before = _read(change.target) if change.existed else None
        changed_at = _changed_at(change.target) if change.existed else ""
        done = carry_out(change, path)
        after = _read(change.target)
        if approval_id is not None and after is not None and (before is not None or not change.existed):
            with self._lock:
                self._kept[approval_id] = KeptChange(approval_id, change.target, before, changed_at, _digest(after))
                self._drop_oldest()
        return done

    def _drop_oldest(self) -> None:
        while len(self._kept) > KEPT_CALLS or sum(len(one.before or b"") for one in self._kept.values()) > KEPT_IN_ALL:
            self._kept.popitem(last=False)

    def changes(self) -> list[KeptChange]:
        """The changes that can be undone or were, the oldest first."""
        with self._lock:
            return list(self._kept.values())

    def offer(self, approval_id: str) -> str | None:
        """The `changed_at` of the change that `undo` would undo; `None` if there is none."""
        with self._lock:
            kept = self._kept.get(approval_id)
        return kept.changed_at if kept is not None else None

    def undo(self, approval_id: str, *, redo: bool = False) -> None:
        """Put the old file back, or, to `redo`, what the call had written; nothing where that was done before. Raises
        `ToolFailed`, and changes nothing, if the file was changed since."""
        with self._lock:
            kept = self._kept.get(approval_id)
            if kept is None:
                raise ToolFailed(NO_LONGER_KEPT)
            if kept.undone != redo:
                return
            now = _read(kept.target)
            if (None if now is None else _digest(now)) != kept.after or (now is None and kept.target.exists()):
                raise ToolFailed(CHANGED)
            try:
                if kept.before is None:
                    remove_file(kept.target)
                else:
                    replace_file(kept.target, kept.before)
            except OSError as error:
                raise ToolFailed(f"The old file could not be put back: {error.strerror}.") from None
            self._kept[approval_id] = replace(
                kept,
                before=now,
                after=None if kept.before is None else _digest(kept.before),
                undone=not redo,
            )
            self._drop_oldest()


def _read(path: Path) -> bytes | None:
    try:
        return read_bytes(path, KEPT_BYTES)
    except OSError:
        return None


def _changed_at(path: Path) -> str:
    try:
        return datetime.fromtimestamp(path.lstat().st_mtime, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except OSError:
        return ""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


backups = Backups()
"""The backups of this kernel."""
