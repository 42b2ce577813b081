"""`Room`: what a command inside walls may read, write and know. bubblewrap and Landlock both build it."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from agent_kernel.protocol.calls import Walls

PRIVATE = (Path("/tmp"), Path("/run"))
"""Shared places that a command has for itself, empty: they hold other programs' sockets and temporary files."""

_KEPT = (Path(sys.prefix), Path(sys.base_prefix), Path("/run/current-system"))
"""What a command needs to start, and what the kernel runs: also where it is in a place that is hidden."""

_IN_HOME = (
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    ".azure",
    ".config/gcloud",
    ".netrc",
    ".pgpass",
    ".pypirc",
    ".git-credentials",
    ".config/git/credentials",
    # keyrings
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".kde/share/apps/kwallet",
    ".gnome2/keyrings",
    ".password-store",
    # browser profiles
    ".mozilla",
    ".librewolf",
    ".thunderbird",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/google-chrome",
    ".config/microsoft-edge",
    ".config/opera",
    ".config/vivaldi",
    "snap/chromium",
    "snap/firefox",
    ".var/app",
)

_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_*", "TERM", "TZ", "VIRTUAL_ENV", "CONDA_*", "PYTHON*")


@dataclass(frozen=True, slots=True)
class Room:
    """All paths are resolved: a link to a hidden place leads to a hidden place."""

    folder: Path
    """The notebook's folder."""
    writable: bool
    """Whether the folder may be written, and there is a private temporary folder."""
    hidden: tuple[Path, ...]
    """Files and folders that exist and can't be opened, in whatever way they are reached."""
    kept: tuple[Path, ...]
    """This Python's folders, where they are in a hidden one or in the notebook's: they can be read, and not written."""
    environment: Mapping[str, str]


def make_room(walls: Walls, folder: Path, hidden: Iterable[Path] = (), environ: Mapping[str, str] = os.environ) -> Room:
    """The room for a level other than `none`; `hidden` are places of this machine that the server may not know."""
    folder = _resolved(folder)
    wanted = {*PRIVATE, *_in_homes(environ), *_sockets(), *hidden, *map(Path, walls.hidden)}
    found = {place for path in wanted if path.is_absolute() and _exists(place := _resolved(path))} - {folder}
    kept = {path for one in _KEPT if (path := _resolved(one)).is_dir() and path != folder}
    open_folders = {*kept, folder}
    return Room(
        folder=folder,
        writable=walls.level == "workspace",
        hidden=tuple(sorted(path for path in found if _nearest(path, found | open_folders) not in found)),
        kept=tuple(sorted(path for path in kept if _nearest(path, found | open_folders) in found | {folder})),
        environment=_in_english(known_environment(environ, walls.environment)),
    )


def known_environment(environ: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """The variables that a command may know; `more` are names or patterns of the site's."""
    patterns = (*_ENVIRONMENT, *more)
    return {name: value for name, value in environ.items() if any(fnmatchcase(name, one) for one in patterns)}


def _in_english(environment: Mapping[str, str]) -> dict[str, str]:
    """With messages in English: `where_it_met_them` reads them. `LC_ALL` would go before that, so it becomes `LANG`."""
    found = dict(environment)
    if everything := found.get("LC_ALL"):
        found = {name: value for name, value in found.items() if not name.startswith("LC_")} | {"LANG": everything}
    return found | {"LC_MESSAGES": "C"}


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))  # a loop of links is no error


def _nearest(path: Path, places: set[Path]) -> Path | None:
    """The innermost of the places that a path is in."""
    return next((parent for parent in path.parents if parent in places), None)


def _exists(path: Path) -> bool:
    try:
        return path.exists() and path != Path("/")
    except OSError:
        return False


def _in_homes(environ: Mapping[str, str]) -> Iterator[Path]:
    import pwd  # not on Windows, which has no walls

    homes = {environ.get("HOME", "")}
    with suppress(KeyError):  # a container's user without an entry
        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    for home in filter(None, homes):
        yield from (Path(home, name) for name in _IN_HOME)


def _sockets() -> Iterator[Path]:
    """Sockets in the file system, such as Docker's: they can be reached without a network, on a read-only disk too."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        path = Path(line.split(maxsplit=7)[7] if line.count(" /") else "")
        try:
            if path.is_absolute() and stat.S_ISSOCK(path.stat().st_mode):
                yield path
        except OSError:
            continue
