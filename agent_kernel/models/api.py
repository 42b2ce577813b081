"""The interface between an API of model services and the HTTP transport: path, headers, bodies, answer readers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from agent_kernel.models.answer_reading import AnswerReader
from agent_kernel.models.base import ModelRequest
from agent_kernel.models.service_faults import Fault
from agent_kernel.protocol.vocabulary import ApiName


@dataclass(frozen=True, slots=True)
class Target:
    """The model and service that a request is for."""

    wire_name: str
    """The model's name at the service."""
    origin: str
    """Address and model, to which provider items are bound: see `ProviderItems`."""


@dataclass(frozen=True, slots=True)
class Amendment:
    """The request to send in place of a refused one."""

    request: ModelRequest
    """May be the same request, if the API object builds another body from now on."""
    notice: str = ""
    """A sentence for the user about what is done differently; empty if they need not know."""
    api: "Api | None" = None
    """The API to use from now on, if it changes."""


class Api(Protocol):
    """One API of model services. Each model has its own object, which may remember what the service refused."""

    name: ApiName
    path: str
    """The path below the endpoint's base URL. A leading version is dropped if the base URL ends with the same one,
    because providers document either form."""
    headers: ClassVar[Mapping[str, str]]
    """Headers beside the key's."""

    def body(self, request: ModelRequest, target: Target) -> dict[str, Any]:
        """The body of a request for a streamed answer."""
        ...

    def reader(self, target: Target) -> AnswerReader: ...

    def amended(self, request: ModelRequest, fault: Fault, target: Target) -> Amendment | None:
        """The request to send after this fault, which came before any part of an answer; `None` if none would help."""
        ...
