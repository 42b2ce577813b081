"""Where the path of a file tool's call leads, and what may be done there unasked.

A path is resolved once for a call. Everything that is said of the call is said of that place, and nothing else is
opened for it (see `opening`).
"""

import os
from pathlib import Path, PurePosixPath

from agent_kernel.protocol.views import Place
from agent_kernel.tools.review.hidden import hidden_characters

UNKNOWN = Place(path="", linked=True)
"""No rule by path allows it."""
_IMPORTED_BY_ITSELF = frozenset({"sitecustomize.py", "usercustomize.py"})


def locate(path: object, root: Path) -> Place:
    """`UNKNOWN` for a path that can't be used, or whose real name is no text."""
    if not isinstance(path, str):
        return UNKNOWN
    try:
        folder = os.path.realpath(root)
        whole = os.path.join(folder, path)  # noqa: PTH118 -- as `realpath` reads it, with its `..`
        real = os.path.realpath(whole)
        real.encode()
        found = Path(real)
        inside = found.relative_to(folder).as_posix() if found.is_relative_to(folder) else None
        return Place(path=real, inside=inside, linked=real != os.path.normpath(whole))
    except (ValueError, OSError):
        return UNKNOWN


def is_plain(name: str) -> bool:
    """Whether no part of a path is hidden, and every character of it can be seen."""
    return not any(part.startswith(".") for part in PurePosixPath(name).parts) and not hidden_characters(name)


def may_read(place: Place) -> bool:
    """Whether it is in the notebook's folder and in no hidden part of it. Hidden files (`.env`, `.ssh`) often hold
    secrets."""
    return place.inside is not None and is_plain(place.inside)


def may_edit(place: Place, root: Path) -> bool:
    """Whether the mode `edit` lets a file be written unasked: as `may_read`. What changes how things run is asked
    about: hidden files (`.agent-kernel.toml`, `.git`, `.venv`), environments of Python, what Python imports by itself,
    and notebooks, whose page would write over the change."""
    if not may_read(place) or place.inside in (None, "."):
        return False
    file = PurePosixPath(place.inside)
    if file.suffix.lower() == ".ipynb" or file.name.lower() in _IMPORTED_BY_ITSELF:
        return False
    folder = Path(os.path.realpath(root))
    return not any((folder / parent / "pyvenv.cfg").exists() for parent in file.parents)
