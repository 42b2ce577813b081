"""What the file tools replaced, kept in the kernel for as long as it is young and not too large."""

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.changes import FileChange
from agent_kernel.tools.files import carry_out
from agent_kernel.tools.opening import read_bytes, remove_file, replace_file

KEPT_CALLS = 50
KEPT_BYTES = 5 * 1024 * 1024
"""A larger file can't be put back."""


@dataclass(frozen=True, slots=True)
class Replaced:
    target: Path
    before: bytes | None
    """`None` where there was no file."""
    changed_at: str
    """When the old file was last changed; empty where there was none."""
    after: str
    """The SHA-256 of what the call wrote."""


class Backups:
    """By the call's approval. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Replaced] = OrderedDict()

    def carry_out(self, approval_id: str | None, change: FileChange, path: str) -> str:
        """Make the change, and keep what it replaced. Raises `ToolFailed`."""
        before = _read(change.target) if change.existed else None
        changed_at = _changed_at(change.target) if change.existed else ""
        done = carry_out(change, path)
        after = _read(change.target)
        if approval_id is not None and after is not None and (before is not None or not change.existed):
            with self._lock:
                self._kept[approval_id] = Replaced(change.target, before, changed_at, _digest(after))
                while len(self._kept) > KEPT_CALLS:
                    self._kept.popitem(last=False)
        return done

    def offer(self, approval_id: str) -> str | None:
        """When the file that `undo` would put back was last changed; `None` where there is nothing to put back."""
        with self._lock:
            kept = self._kept.get(approval_id)
        return kept.changed_at if kept is not None else None

    def undo(self, approval_id: str) -> None:
        """Put the old file back. Raises `ToolFailed` where the file is not as the call left it; nothing is changed
        then."""
        with self._lock:
            kept = self._kept.get(approval_id)
            if kept is None:
                raise ToolFailed("The old file is no longer kept.")
            now = _read(kept.target)
            if now is None or _digest(now) != kept.after:
                raise ToolFailed("The file was changed since. Nothing was put back.")
            try:
                if kept.before is None:
                    remove_file(kept.target)
                else:
                    replace_file(kept.target, kept.before)
            except OSError as error:
                raise ToolFailed(f"The old file could not be put back: {error.strerror}.") from None
            del self._kept[approval_id]


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
"""This kernel's."""
