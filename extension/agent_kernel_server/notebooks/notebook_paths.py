"""`NotebookPaths`: finds the notebook of a run, by the server's sessions, which follow renames; where several notebooks
use one kernel, by the run's cell."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from agent_kernel.protocol.lists import ListedCall, ListedRun

MOST_BYTES = 20_000_000
"""Larger notebooks are not searched for cells."""

ListedT = TypeVar("ListedT", ListedCall, ListedRun)


def renamed(path: str, old: str, new: str) -> str:
    """A path after a rename from `old` to `new`, of itself or of a folder that it is in."""
    return new + path[len(old) :] if path == old or path.startswith(f"{old}/") else path


class NotebookPaths:
    def __init__(self, session_manager: Any, contents: Callable[[], Any]) -> None:
        self._sessions = session_manager
        self._contents = contents
        self._renamed: dict[str, tuple[str, str]] = {}
        """By session, its outdated path and the new one: a page updates its session some time after a rename. Without a
        page the session is never updated."""

    async def by_kernel(self) -> dict[str, list[str]]:
        """The paths of each kernel's notebooks, by the kernel's id."""
        found: dict[str, list[str]] = {}
        for session in await self._list_sessions():
            found.setdefault(str((session.get("kernel") or {}).get("id")), []).append(self._path_of(session))
        return found

    async def _list_sessions(self) -> list[dict[str, Any]]:
        sessions = await ensure_async(self._sessions.list_sessions())
        return [session for session in sessions if session.get("type") == "notebook"]

    def _path_of(self, session: dict[str, Any]) -> str:
        path: str = session["path"].strip("/")
        before, now = self._renamed.get(session["id"], (path, path))
        return now if path == before else path

    async def on_rename(self, old: str, new: str) -> None:
        """A session follows its notebook."""
        sessions = await self._list_sessions()
        known = {session["id"] for session in sessions}
        self._renamed = {one: paths for one, paths in self._renamed.items() if one in known}
        for session in sessions:
            path = self._path_of(session)
            if (now := renamed(path, old, new)) != path:
                self._renamed[session["id"]] = (session["path"].strip("/"), now)

    async def notebook_of(
        self, kernel_id: str, cells: Sequence[str | None] = (), known: str | None = None
    ) -> str | None:
        """The path of a kernel's notebook; `None` if it has none.

        Of several notebooks, the one that was saved with the first of these cells that any has; else `known`, if it is
        one of them; else the first.
        """
        paths = (await self.by_kernel()).get(kernel_id, [])
        if len(paths) > 1 and any(cells):
            saved = {path: await self._cells_of(path) for path in paths}
            for cell_id in cells:
                for path in paths:
                    if cell_id in saved[path]:
                        return path
        return known if known in paths else paths[0] if paths else None

    async def _cells_of(self, path: str) -> frozenset[str]:
        """The ids of the cells of a saved notebook."""
        try:
            size = (await ensure_async(self._contents().get(path, type="notebook", content=False))).get("size")
            if size is not None and size > MOST_BYTES:
                return frozenset()
            model = await ensure_async(self._contents().get(path, type="notebook", content=True))
        except HTTPError:
            return frozenset()
        cells = model["content"].get("cells")
        found = (cell.get("id") for cell in cells or () if isinstance(cell, dict))
        return frozenset(one for one in found if isinstance(one, str))

    async def follow(self, listed: Iterable[ListedT]) -> list[ListedT]:
        """The items with the present paths of their notebooks, as far as their kernels have sessions; those of agents
        outside, which name a notebook, with its kernel."""
        paths = await self.by_kernel()
        kernels = {path: kernel_id for kernel_id, found in paths.items() for path in found}

        def followed(one: ListedT) -> ListedT:
            if one.kernel_id is None and one.client is not None:
                return one.model_copy(update={"kernel_id": kernels.get(one.notebook or "")})
            now = paths.get(one.kernel_id or "")
            return one if now is None or one.notebook in now else one.model_copy(update={"notebook": now[0]})

        return [followed(one) for one in listed]
