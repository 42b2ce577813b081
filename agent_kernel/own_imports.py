"""What Agent Kernel imports in a kernel never comes from the notebook's folder.

A kernel has that folder on `sys.path` before the installed packages, and most imports here are made when something is
first needed: a file `PIL.py` would run as soon as a prompt names a picture, before anybody was asked. See
docs/decisions/own-imports.md.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path, PurePath
from types import CodeType, FrameType, ModuleType

INSTALLED = frozenset({"site-packages", "dist-packages"})
"""The folders of installed modules, wherever they are."""
_STANDARD_LIBRARY = str(Path(os.path.realpath(os.__file__)).parent) + os.sep
_OURS = frozenset({"agent_kernel", "agent_kernel_widgets"})
_PACKAGES = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "widgets")]
"""Where these packages are, which a development install may have in the notebook's folder."""
_RUN_USERS_CODE = frozenset({"IPython.core.interactiveshell", "IPython.core.events"})


def install(folder: Path) -> None:
    """Have this process import for Agent Kernel without the notebook's folder. Idempotent."""
    if not any(isinstance(finder, _OwnImports) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OwnImports(folder))


class _OwnImports(MetaPathFinder):
    """Finds top-level modules for imports that Agent Kernel has made, or a library on its behalf."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """`None` for an import of the user's. Raises `ModuleNotFoundError`, because the next finder would look into the
        folder."""
        if path is not None or not _is_own(sys._getframe(1)):
            return None
        places = _PACKAGES if name in _OURS else installed_path(self._folder)
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = PathFinder.find_spec(name, places) if finder is PathFinder else finder.find_spec(name, None, target)
            if spec is not None:
                return spec
        raise ModuleNotFoundError(f"No module named {name!r} outside the notebook's folder", name=name)


def _is_own(frame: FrameType | None) -> bool:
    """Whether the innermost code that is neither a library's nor Python's is Agent Kernel's, and not the user's."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name.partition(".")[0] in _OURS:
            return True
        if name in _RUN_USERS_CODE or not _is_library(frame.f_code):
            return False
        frame = frame.f_back
    return False


def _is_library(code: CodeType) -> bool:
    return code.co_filename.startswith("<frozen ") or is_installed(os.path.realpath(code.co_filename))


def is_installed(path: str) -> bool:
    """Whether a real path is one of the standard library or of an installed module, or in one."""
    return f"{path}{os.sep}".startswith(_STANDARD_LIBRARY) or not INSTALLED.isdisjoint(PurePath(path).parts)


def installed_path(folder: Path) -> list[str]:
    """The entries of `sys.path` that are not the notebook's folder nor in it, but for those of an environment there."""
    top = os.path.realpath(folder)
    below = f"{top.rstrip(os.sep)}{os.sep}"
    kept = []
    entries: Sequence[object] = sys.path
    for entry in entries:
        if not isinstance(entry, str):
            continue  # as Python does
        real = os.path.realpath(entry)
        if os.path.isabs(entry) and (is_installed(real) or not f"{real}{os.sep}".startswith(below)):  # noqa: PTH117 -- `sys.path` has strings
            kept.append(entry)
    return kept
