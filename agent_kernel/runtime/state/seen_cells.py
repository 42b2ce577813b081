"""`SeenCells`: which cells' sources the model of a conversation was told, so that it changes no other ones."""

from collections import OrderedDict
from collections.abc import Iterable

from agent_kernel.protocol.calls import SeenCell

MOST_CELLS = 20_000
"""The cells told last are kept. One that is no longer known has to be read again."""


class SeenCells:
    """Of one conversation, in memory: after a restart of the server the model reads the notebook again."""

    def __init__(self) -> None:
        self._digests: OrderedDict[str, str] = OrderedDict()

    def tell(self, cells: Iterable[SeenCell]) -> None:
        """The model is told the whole sources of these cells, as they are now."""
        for cell in cells:
            self._digests[cell.cell_id] = cell.digest
            self._digests.move_to_end(cell.cell_id)
        while len(self._digests) > MOST_CELLS:
            self._digests.popitem(last=False)

    def digest(self, cell_id: object) -> str | None:
        """Of the source as it was last told; `None` if it never was. Models also write `cell:ID`, as they are told."""
        return self._digests.get(cell_id.removeprefix("cell:")) if isinstance(cell_id, str) else None
