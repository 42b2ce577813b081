"""Opens files by their resolved paths, folder by folder and without following links.

A path is judged before it is opened, and another process may put a link in it in between. So each part is opened in the
folder before it (`openat` with `O_NOFOLLOW`), and a link raises `OSError`: what is open is what was judged, whatever
happens to the names. On Windows, which has no `openat`, the resolved path is compared before and after opening.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_BY_DESCRIPTOR = os.open in os.supports_dir_fd
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_IS_FOLDER = getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_PASSED = getattr(os, "O_PATH", os.O_RDONLY) | _IS_FOLDER
"""Flags for folders on the way. With `O_PATH` they need not be readable."""
# O_NONBLOCK, so that opening a pipe does not block.
_READ = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | getattr(os, "O_BINARY", 0)


class FileTooLarge(OSError):
    def __init__(self, size: int) -> None:
        super().__init__(errno.EFBIG, os.strerror(errno.EFBIG))
        self.size = size


class OpenFolder:
    """An open folder, which stays the same whatever happens to its name. Methods take names in it and raise
    `OSError`."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def folder(self, name: str, *, make: bool = False, listed: bool = True) -> "OpenFolder":
        """Open a folder in this one. `make` creates it if it is missing; `listed` allows `entries`."""
        if make:
            with suppress(FileExistsError):
                os.mkdir(self._name(name), dir_fd=self._descriptor)
        if self._descriptor is None:
            _refuse_link(self.path / name)
            return OpenFolder(self.path / name, None)
        flags = os.O_RDONLY | _IS_FOLDER if listed else _PASSED
        return OpenFolder(self.path / name, os.open(name, flags, dir_fd=self._descriptor))

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """The entries, unordered. Their `stat` works while this folder is open."""
        with os.scandir(self.path if self._descriptor is None else self._descriptor) as found:
            yield from found

    def link_target(self, name: str) -> str:
        return os.readlink(self._name(name), dir_fd=self._descriptor)

    def find(self, name: str) -> os.stat_result | None:
        """The status of an entry, without following a link; `None` if there is none."""
        try:
            return os.stat(self._name(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open_file(self, name: str, flags: int = _READ) -> int:
        """Open a regular file, for reading. Others are not opened, because that alone may affect a device."""
        found = os.stat(self._name(name), dir_fd=self._descriptor, follow_symlinks=False)
        _only_file(found)
        descriptor = os.open(self._name(name), flags, dir_fd=self._descriptor)
        try:
            _only_file(os.fstat(descriptor))
            if self._descriptor is None:
                _refuse_link(self.path / name)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def replace_file(self, name: str, raw: bytes) -> None:
        """Replace or create a regular file atomically, keeping its permissions."""
        temporary = f".{name[:100]}.{secrets.token_hex(6)}.tmp"
        descriptor = os.open(self._name(temporary), _CREATE, 0o666, dir_fd=self._descriptor)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
                if (old := self.find(name)) is not None:
                    _only_file(old)
                    target = file.fileno() if os.chmod in os.supports_fd else self._name(temporary)
                    os.chmod(target, old.st_mode & 0o7777)  # noqa: PTH101 -- a path may lead elsewhere by now
            os.replace(
                self._name(temporary), self._name(name), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor
            )
        except BaseException:
            with suppress(OSError):
                self.remove_file(temporary)
            raise

    def remove_file(self, name: str) -> None:
        os.unlink(self._name(name), dir_fd=self._descriptor)

    def _name(self, name: str) -> str:
        return (name or ".") if self._descriptor is not None else str(self.path / name)


def open_folder(place: Path, *, make: bool = False, listed: bool = False) -> OpenFolder:
    """Open the folder at a resolved path. With `make`, missing folders are created. Raises `OSError`, with `ELOOP` or
    `ENOTDIR` if a part is a link."""
    if not _BY_DESCRIPTOR:
        if make:
            place.mkdir(parents=True, exist_ok=True)
        _refuse_link(place)
        return OpenFolder(place, None)
    first, *parts = place.parts
    flags = os.O_RDONLY | _IS_FOLDER if listed and not parts else _PASSED
    at = OpenFolder(Path(first), os.open(first, flags))
    for number, part in enumerate(parts, 1):
        with at:
            try:
                below = at.folder(part, listed=listed and number == len(parts))
            except FileNotFoundError:
                if not make:
                    raise
                below = at.folder(part, make=True, listed=listed and number == len(parts))
        at = below
    return at


def read_bytes(place: Path, most: int) -> bytes:
    """Read the regular file at a resolved path. Raises `OSError`, and `FileTooLarge` above `most` bytes."""
    with open_folder(place.parent) as folder, os.fdopen(folder.open_file(place.name), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise FileTooLarge(size)
        return file.read(most)


def read_start(place: Path, most: int) -> bytes:
    """Read the first bytes of the regular file at a resolved path. Raises `OSError`."""
    with open_folder(place.parent) as folder, os.fdopen(folder.open_file(place.name), "rb") as file:
        return file.read(most)


def replace_file(place: Path, raw: bytes) -> None:
    """As `OpenFolder.replace_file`, creating missing folders. Raises `OSError`."""
    with open_folder(place.parent, make=True) as folder:
        folder.replace_file(place.name, raw)


def remove_file(place: Path) -> None:
    """Raises `OSError`."""
    with open_folder(place.parent) as folder:
        folder.remove_file(place.name)


def is_link_on_the_way(error: OSError) -> bool:
    return error.errno in (errno.ELOOP, errno.ENOTDIR)


def _only_file(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file")


def _refuse_link(place: Path) -> None:
    if Path(os.path.realpath(place)) != place:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
