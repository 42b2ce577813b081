"""PageContents is the contents manager as Jupyter's contents API has it: what pages load and save knows of open runs.

Whatever else reads notebooks, such as a copy, a download or nbconvert, gets what is saved.
"""

from typing import Any

from jupyter_core.utils import ensure_async

from agent_kernel_server.notebooks import RecordKeeper
from agent_kernel_server.open_runs import notebook_in


class PageContents:
    def __init__(self, manager: Any, records: RecordKeeper) -> None:
        self._manager = manager
        self._records = records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    async def get(self, *args: Any, **kwargs: Any) -> Any:
        """A page gets the widgets of the runs that go on, and the records of those that have ended since."""
        model = await ensure_async(self._manager.get(*args, **kwargs))
        notebook = notebook_in(model)
        if notebook is not None:
            path = str(model["path"]).strip("/")
            await self._records.open_runs.bring_back(notebook, path)
            if self._records.open_runs.put_ended(notebook, path):
                self._records.pre_save(model, path)
        return model

    async def save(self, model: Any, path: str = "") -> Any:
        await self._prepare(model, path)
        return await ensure_async(self._manager.save(model, path))

    async def new(self, model: Any = None, path: str = "") -> Any:
        """A save under a new name."""
        await self._prepare(model, path)
        return await ensure_async(self._manager.new(model, path))

    async def _prepare(self, model: Any, path: str) -> None:
        """What the hooks do at once is done here with all that has to be read for it, and also for a manager that has
        no hooks. They find nothing left to do."""
        await self._records.open_runs.prepare(model)
        self._records.open_runs.pre_save(model, path)
        if isinstance(model, dict):
            self._records.pre_save(model, path)
