"""The interface between an API of model services and the HTTP transport: path, bodies, answer readers."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from agent_kernel.models.answer_reading import AnswerReader
from agent_kernel.models.base import ModelRequest
from agent_kernel.protocol.vocabulary import ApiName


class Api(ABC):
    """One API of model services, for one model, in the form that its service takes: `Fallbacks` learns that."""

    name: ClassVar[ApiName]
    path: ClassVar[str]
    """The path below the endpoint's base URL. A leading version is dropped if the base URL ends with the same one,
    because providers document either form."""

    def __init__(self, wire_name: str, where: str) -> None:
        """`wire_name` is the model's name at the service, whose address is `where`."""
        self.wire_name = wire_name
        self.origin = f"{where} {wire_name}"
        """Address and model, to which provider items are bound: see `ProviderItems`."""
        self.left_out: set[str] = set()
        """Fields of the body that the service does not take, as paths; `*` stands for each entry of a list."""

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """The body of a request for a streamed answer, without what the service does not take."""
        body = self.whole_body(request)
        for path in self.left_out:
            _leave_out(body, path.split("."))
        return body

    @abstractmethod
    def whole_body(self, request: ModelRequest) -> dict[str, Any]:
        """The body with all fields."""

    @abstractmethod
    def reader(self) -> AnswerReader: ...


def has_field(value: Any, path: list[str]) -> bool:
    """Whether a body has a field, in some entry of the lists on the way to it."""
    name, *rest = path
    if name == "*":
        return any(has_field(one, rest) for one in value)
    return isinstance(value, dict) and name in value and (not rest or has_field(value[name], rest))


def _leave_out(value: Any, path: list[str]) -> None:
    name, *rest = path
    if name == "*":
        for one in value:
            _leave_out(one, rest)
    elif not rest:
        value.pop(name, None)
    elif name in value:
        _leave_out(value[name], rest)
        if not value[name]:
            del value[name]
