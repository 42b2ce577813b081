"""What all conversations of a runtime share."""

from dataclasses import dataclass, field
from typing import Protocol

from agent_kernel.log.store import Log
from agent_kernel.models.base import Model
from agent_kernel.runtime.settings import RuntimeSettings
from agent_kernel.runtime.state.history import Histories
from agent_kernel.runtime.state.run import ActiveRun
from agent_kernel.runtime.tasks import TaskOwner


class ModelSource(Protocol):
    def resolve(self, name: str | None) -> Model:
        """Raises `NoModelError` or `ConfigurationError`. May block: it is called in a thread."""
        ...


@dataclass(frozen=True, slots=True)
class Resources:
    log: Log
    models: ModelSource
    settings: RuntimeSettings
    attended: bool
    tasks: TaskOwner
    histories: Histories = field(default_factory=Histories)
    active: set[ActiveRun] = field(default_factory=set)
    """The runs that are under way, of all conversations. Kept by `RunQueue`."""
