"""The interface between an API of model services and the HTTP transport: path, bodies, answer readers."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from agent_kernel.models.answer_reading import AnswerReader
from agent_kernel.models.base import ModelRequest
from agent_kernel.models.service_faults import Fault
from agent_kernel.protocol.vocabulary import ApiName


@dataclass(frozen=True, slots=True)
class Amendment:
    """The request to send in place of a refused one."""

    request: ModelRequest
    """May be the same request, if the API object builds another body from now on."""
    notice: str = ""
    """A sentence for the user about what is done differently; empty if they need not know."""


class Api(ABC):
    """One API of model services, for one model. It may remember what the service refused."""

    name: ClassVar[ApiName]
    path: ClassVar[str]
    """The path below the endpoint's base URL. A leading version is dropped if the base URL ends with the same one,
    because providers document either form."""

    def __init__(self, wire_name: str, where: str) -> None:
        """`wire_name` is the model's name at the service, whose address is `where`."""
        self.wire_name = wire_name
        self.origin = f"{where} {wire_name}"
        """Address and model, to which provider items are bound: see `ProviderItems`."""

    @abstractmethod
    def body(self, request: ModelRequest) -> dict[str, Any]:
        """The body of a request for a streamed answer."""

    @abstractmethod
    def reader(self) -> AnswerReader: ...

    @abstractmethod
    def amended(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        """As `Fallbacks.amended`, for what is refused in this API."""
