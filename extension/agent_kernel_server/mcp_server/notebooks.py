"""Finds the notebook or kernel that an agent outside names, and starts a kernel for a notebook that has none."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from agent_kernel.errors import KernelGone, ToolFailed
from agent_kernel_server.notebooks.notebook_paths import NotebookPaths

MOST_LISTED = 200
MOST_FOLDERS = 200
"""How many folders are searched for notebooks."""
LEFT_OUT = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call is to run: a notebook, or a kernel that has none."""

    notebook_path: str | None
    kernel_id: str | None = None

    @property
    def name(self) -> str:
        return self.notebook_path or f"the kernel {self.kernel_id}"


class Notebooks:
    def __init__(
        self, kernel_manager: Any, session_manager: Any, contents: Callable[[], Any], paths: NotebookPaths
    ) -> None:
        self._kernels = kernel_manager
        self._sessions = session_manager
        self._contents = contents
        self._paths = paths
        self._starting: dict[str, asyncio.Task[str]] = {}

    async def find(self, notebook_path: object, kernel_id: object) -> Place:
        """Raises `ToolFailed` where nothing is named, or nothing that there is."""
        if isinstance(notebook_path, str) and notebook_path.strip("/"):
            path = notebook_path.strip("/")
            await self._model(path, content=False)
            return Place(path)
        if not isinstance(kernel_id, str) or not kernel_id:
            raise ToolFailed("Name the notebook: notebook_path is missing. list_notebooks gives the paths.")
        if kernel_id not in self._kernels:
            raise ToolFailed(f"There is no kernel {kernel_id[:80]!r}. list_notebooks gives those that run.")
        paths = (await self._paths.by_kernel()).get(kernel_id)
        return Place(paths[0]) if paths else Place(None, kernel_id)

    async def kernel_of(self, place: Place) -> str | None:
        """The kernel that runs there."""
        if place.notebook_path is None:
            return place.kernel_id if place.kernel_id in self._kernels else None
        for kernel_id, paths in (await self._paths.by_kernel()).items():
            if place.notebook_path in paths and kernel_id in self._kernels:
                return kernel_id
        return None

    async def kernel_for(self, place: Place) -> str:
        """The kernel that runs there, started where a notebook has none. Raises `KernelGone` if that fails."""
        found = await self.kernel_of(place)
        if found is not None:
            return found
        path = place.notebook_path
        if path is None:
            raise KernelGone("The kernel is not running any more.")
        if path not in self._starting:
            task = asyncio.create_task(self._start(path), name=f"kernel for {path}")
            self._starting[path] = task
            task.add_done_callback(lambda _: self._starting.pop(path, None))
        # A start goes on when the one who asked for it has gone.
        return await asyncio.shield(self._starting[path])

    async def _start(self, path: str) -> str:
        """As JupyterLab starts it: a session of the notebook, with the kernel that the notebook names."""
        try:
            metadata = (await self._model(path, content=True))["content"].get("metadata") or {}
            named = (metadata.get("kernelspec") or {}).get("name")
            known = await ensure_async(self._kernels.kernel_spec_manager.get_all_specs())
            session = await ensure_async(
                self._sessions.create_session(
                    path=path,
                    name=PurePosixPath(path).name,
                    type="notebook",
                    kernel_name=named if named in known else None,
                )
            )
        except (HTTPError, OSError, ToolFailed) as error:
            raise KernelGone(f"No kernel could be started for {path}: {error}") from None
        return str(session["kernel"]["id"])

    async def _model(self, path: str, *, content: bool) -> dict[str, Any]:
        """Raises `ToolFailed`."""
        try:
            model: dict[str, Any] = await ensure_async(self._contents().get(path, type="notebook", content=content))
        except HTTPError as error:
            reason = error.log_message or error.reason
            raise ToolFailed(f"There is no notebook {path[:200]!r} that can be read: {reason}") from None
        return model

    async def listed(self) -> list[dict[str, Any]]:
        """The notebooks that have a kernel, then the kernels without one, then other notebooks."""
        by_kernel = await self._paths.by_kernel()
        listed: list[dict[str, Any]] = []
        for kernel_id in self._kernels.list_kernel_ids():
            model = await ensure_async(self._kernels.kernel_model(kernel_id))
            kernel = {"kernel_id": kernel_id, "kernel": model["name"], "state": model["execution_state"]}
            listed += [{"notebook_path": path, **kernel} for path in by_kernel.get(kernel_id, [])] or [kernel]
        listed.sort(key=lambda one: "notebook_path" not in one)
        known = {one.get("notebook_path") for one in listed}
        found = [{"notebook_path": path} for path in await self._files() if path not in known]
        return [*listed, *found][:MOST_LISTED]

    async def _files(self) -> list[str]:
        """Paths of notebooks, those in upper folders first."""
        found: list[str] = []
        folders = [""]
        for _ in range(MOST_FOLDERS):
            if not folders or len(found) >= MOST_LISTED:
                break
            try:
                model = await ensure_async(self._contents().get(folders.pop(0), type="directory", content=True))
            except HTTPError:
                continue
            entries: Iterable[dict[str, Any]] = sorted(model["content"] or (), key=lambda one: str(one["path"]))
            for entry in entries:
                if entry["type"] == "notebook":
                    found.append(entry["path"])
                elif entry["type"] == "directory" and entry["name"] not in LEFT_OUT and entry["name"][:1] != ".":
                    folders.append(entry["path"])
        return found
