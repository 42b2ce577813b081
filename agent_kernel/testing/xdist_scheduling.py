"""Spreads tests over the processes of pytest-xdist, but a notebook's cells to one of them."""

from xdist.scheduler import LoadGroupScheduling


class NotebookScheduling(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return file if file.endswith(".ipynb") else str(super()._split_scope(nodeid))
