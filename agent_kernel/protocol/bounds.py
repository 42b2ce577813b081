"""Bounds of fields that another program writes. pydantic, which applies them, is imported when it reads a field."""

from typing import Annotated, Any


class Bounds:
    """The constraints of a field in an annotation, by the names that `pydantic.Field` gives them: `max_length`, `gt`.

    A dataclass with `Field` itself in an annotation would import pydantic, for which the first prompt of a kernel has
    no time.
    """

    def __init__(self, **constraints: Any) -> None:
        self._constraints = constraints

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import Field

        return handler.generate_schema(Annotated[source, Field(**self._constraints)])


CellId = Annotated[str, Bounds(max_length=200)]
Identifier = Annotated[str, Bounds(pattern=r"^[A-Za-z0-9_.:-]{1,200}$")]
"""An id from a kernel. Its characters are restricted because it goes into URLs, frames and the server's log."""
