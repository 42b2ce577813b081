"""Whole runs: the result of one that has ended, and the progress of one that has not."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_kernel.protocol.metrics import RunMetrics
from agent_kernel.protocol.views import MessageView, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import CallState


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run: its view, its answer, and its whole transcript."""

    run: RunView
    text: str
    messages: list[MessageView]
    tool_calls: list[ToolCallView]
    metrics: RunMetrics = field(default_factory=RunMetrics)
    cleared: bool = False
    """Whether the output of the run's cell was cleared, so that no results may be added there."""
    placed: bool = False
    """Whether a page puts the record and the results into its notebook, and no kernel needs to."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """A run that has not ended."""

    run: RunView
    calls: tuple[ToolCallView, ...]
    """Those that have not ended, or whose unknown outcome no person has answered."""
    ended: Mapping[CallState, int]
    """The number of the others in each state."""
    ahead: RunView | None
    """The run that a queued one waits for."""
    ahead_waits: bool
    """Whether that one waits for a person."""
    waits: bool = False
    """Whether this one does."""
