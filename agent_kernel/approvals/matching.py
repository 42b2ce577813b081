"""Pattern matching that rules on paths and rules on commands share."""

import fnmatch
from pathlib import PurePosixPath
from typing import Literal

from agent_kernel.tools.review.hidden import is_visible

Cover = Literal["yes", "no", "unclear"]
"""Whether a rule covers a call. `unclear` means that it can't be decided; a rule that denies or asks then asks."""


def within_folder(path: str, pattern: str) -> bool:
    """Whether a path matches a pattern, compared folder by folder after `.` and doubled slashes are removed. A hidden
    name (`.env`) matches only a pattern that names its dot; one with invisible or control characters never matches."""
    parts, wanted = PurePosixPath(path).parts, PurePosixPath(pattern).parts
    if ".." in parts or "\\" in path or len(parts) != len(wanted) or not is_visible(path):
        return False
    return all(
        fnmatch.fnmatchcase(part, pattern) and (not part.startswith(".") or pattern.startswith("."))
        for part, pattern in zip(parts, wanted, strict=True)
    )
