"""What one API of model services is to the transport: where requests go, what stands in them, how answers are read."""

from dataclasses import dataclass
from typing import Any, Protocol

from agent_kernel.models.base import ModelItem, ModelRequest
from agent_kernel.models.faults import Fault
from agent_kernel.protocol.vocabulary import ApiName


@dataclass(frozen=True, slots=True)
class Target:
    """Whom a request is for."""

    wire_name: str
    """What the service calls the model."""
    origin: str
    """The address and the model: see `ProviderItems`."""


class AnswerReader(Protocol):
    """Bytes in, deltas and at last a `ModelTurn` out. It has no input or output of its own, so that any chunking of the
    same bytes can be tested."""

    done: bool
    """True once the server said that nothing follows."""

    @property
    def whole(self) -> bool:
        """Whether a connection that breaks now has lost nothing."""
        ...

    def feed(self, chunk: bytes) -> list[ModelItem]:
        """The deltas in `chunk`. Raises `Fault`."""
        ...

    def finish(self) -> list[ModelItem]:
        """The end of the body was reached. The last item is the turn. Raises `Fault` if it was cut off."""
        ...


@dataclass(frozen=True, slots=True)
class Amendment:
    """What to ask in place of a request that was refused."""

    request: ModelRequest
    """May be the same, where the API itself asks differently from now on."""
    notice: str = ""
    """What is done otherwise than asked, for the user; empty where they need not know."""
    api: "Api | None" = None
    """Speak this one from now on."""


class Api(Protocol):
    """Each model has an object of its own, which may remember what the model's service refused."""

    name: ApiName
    path: str
    """Below the endpoint's base URL. One that begins with a version is also right where the base URL ends with it:
    some providers count it in, and users copy either."""

    def headers(self, key: str) -> dict[str, str]:
        """Who asks, and in which version of the API."""
        ...

    def body(self, request: ModelRequest, target: Target) -> dict[str, Any]:
        """The request as JSON, to be streamed back."""
        ...

    def reader(self, target: Target) -> AnswerReader: ...

    def amended(self, request: ModelRequest, fault: Fault, target: Target) -> Amendment | None:
        """What to ask after this fault, at once and with nothing said yet; `None` where nothing else would do."""
        ...
