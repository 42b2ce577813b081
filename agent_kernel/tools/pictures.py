"""Opens a file that a prompt names: one in the notebook's folder, and nothing to which a link leads."""

import errno
import os
import stat
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from agent_kernel.errors import ToolFailed

MOST_BYTES = 20 * 1024 * 1024
_FOLLOWS_NOTHING = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""A pipe in place of the file does not hold up who opens it."""


def read_picture(root: Path, name: str) -> bytes:
    """Raises `ToolFailed`, in words that follow a colon."""
    try:
        return read_below(root, name, MOST_BYTES)
    except FileNotFoundError:
        raise ToolFailed("there is no such file in the notebook's folder") from None


def read_below(root: Path, name: str, most: int) -> bytes:
    """The bytes of a file below `root`. What is opened is what is judged: each part of the path is opened in the one
    before it, and none may be a link. Raises `FileNotFoundError`, and `ToolFailed`, in words that follow a colon."""
    parts = _parts(name)
    try:
        with ExitStack() as stack:
            descriptor = _open_below(stack, root, parts)
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise ToolFailed("it is not a file")
            if found.st_size > most:
                raise ToolFailed(f"it has {found.st_size:,} bytes, and at most {most:,} are read")
            with os.fdopen(os.dup(descriptor), "rb") as file:
                return file.read(most)
    except FileNotFoundError:
        raise
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


def _open_below(stack: ExitStack, root: Path, parts: tuple[str, ...]) -> int:
    def opened(path: str | Path, flags: int, folder: int | None = None) -> int:
        descriptor = os.open(path, os.O_RDONLY | flags, dir_fd=folder)
        stack.callback(os.close, descriptor)
        return descriptor

    if os.open not in os.supports_dir_fd:  # Windows, where making a link takes rights that few have
        whole = root.joinpath(*parts)
        if Path(os.path.realpath(whole)) != Path(os.path.realpath(root)).joinpath(*parts):
            raise ToolFailed("links are not followed")
        return opened(whole, _FOLLOWS_NOTHING)
    folder = opened(root, os.O_DIRECTORY)
    for part in parts[:-1]:
        folder = opened(part, os.O_DIRECTORY | _FOLLOWS_NOTHING, folder)
    return opened(parts[-1], _FOLLOWS_NOTHING, folder)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "links are not followed"
    return (error.strerror if isinstance(error, OSError) else None) or "its name can't be used"
