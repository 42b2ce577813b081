"""Objects shared by all conversations of a runtime, and by all runs of one conversation."""

from dataclasses import dataclass, field
from typing import Protocol

from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.store import Log
from agent_kernel.models.base import Model
from agent_kernel.runtime.settings import RuntimeSettings
from agent_kernel.runtime.state.history import Histories
from agent_kernel.runtime.state.leases import Leases
from agent_kernel.runtime.state.run import ActiveRun, RunContext
from agent_kernel.runtime.state.waits import Shown
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.tools.executor import ToolExecutor


class ModelSource(Protocol):
    def resolve(self, name: str | None) -> Model:
        """Raises `NoModelError` or `ConfigurationError`. May block: it is called in a thread."""
        ...


@dataclass(frozen=True, slots=True)
class Resources:
    """Of a runtime."""

    log: Log
    models: ModelSource
    settings: RuntimeSettings
    attended: bool
    tasks: TaskOwner
    histories: Histories = field(default_factory=Histories)
    active: set[ActiveRun] = field(default_factory=set)
    """The runs that are under way, of all conversations. Kept by `RunQueue`."""


@dataclass(frozen=True, slots=True)
class ConversationResources:
    """Of a conversation."""

    runtime: Resources
    row: ConversationRow
    shown: Shown
    leases: Leases = field(default_factory=Leases)

    def context(self, model: Model, executor: ToolExecutor | None) -> RunContext:
        shared = self.runtime
        return RunContext(
            self.row,
            shared.log,
            shared.settings,
            model,
            executor,
            shared.attended,
            self.leases,
            self.shown,
            shared.tasks.context,
            shared.active,
        )
