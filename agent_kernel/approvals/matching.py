"""What rules on paths and rules on commands have in common."""

import fnmatch
from pathlib import PurePosixPath
from typing import Literal

from agent_kernel.tools.review.hidden import hidden_characters

Cover = Literal["yes", "no", "unclear"]
"""Whether a rule covers a call. `unclear`: it may, which can't be told. A rule that denies or asks then asks."""


def within_folder(path: str, pattern: str) -> bool:
    """Folder by folder, after `.` and doubled slashes are taken out. A hidden name (`.env`) is covered where the
    pattern names its dot, one with characters that can't be seen never."""
    parts, wanted = PurePosixPath(path).parts, PurePosixPath(pattern).parts
    if ".." in parts or "\\" in path or len(parts) != len(wanted) or hidden_characters(path):
        return False
    return all(
        fnmatch.fnmatchcase(part, pattern) and (not part.startswith(".") or pattern.startswith("."))
        for part, pattern in zip(parts, wanted, strict=True)
    )
