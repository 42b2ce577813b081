"""Opens a file that a prompt names: one in the notebook's folder, and nothing to which a link leads."""

import errno
import os
from pathlib import Path, PurePosixPath

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin.opening import FileTooLarge, is_link_on_the_way, read_bytes

MOST_BYTES = 20 * 1024 * 1024


def read_picture(root: Path, name: str) -> bytes:
    """Raises `ToolFailed`, in words that follow a colon."""
    try:
        return read_below(root, name, MOST_BYTES)
    except FileNotFoundError:
        raise ToolFailed("there is no such file in the notebook's folder") from None


def read_below(root: Path, name: str, most: int) -> bytes:
    """The bytes of a file below `root`. What is opened is what is judged: each part of the path is opened in the one
    before it, and none may be a link. Raises `FileNotFoundError`, and `ToolFailed`, in words that follow a colon."""
    place = Path(os.path.realpath(root)).joinpath(*_parts(name))
    try:
        return read_bytes(place, most)
    except FileNotFoundError:
        raise
    except FileTooLarge as large:
        raise ToolFailed(f"it has {large.size:,} bytes, and at most {most:,} are read") from None
    except (OSError, ValueError) as error:
        raise ToolFailed(_reason(error)) from None


def _parts(name: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    if path.is_absolute() or Path(name).is_absolute() or ".." in path.parts:
        raise ToolFailed("only files in the notebook's folder are read")
    if not path.parts:
        raise ToolFailed("it has no name")
    if any(part.startswith(".") for part in path.parts):
        raise ToolFailed("hidden files are not read")
    return path.parts


def _reason(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return "its name can't be used"
    if is_link_on_the_way(error):
        return "links are not followed"
    if error.errno in (errno.EISDIR, errno.EINVAL):
        return "it is not a file"
    return error.strerror or "its name can't be used"
