"""What identifies a cell's source as the model was told it."""

import hashlib
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from agent_kernel.protocol.ids import CellId


class SeenCell(BaseModel):
    """A cell whose whole source the model was told."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    cell_id: CellId
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def source_digest(source: str) -> str:
    """The SHA-256 of a cell's source as UTF-8, in hexadecimal digits."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
