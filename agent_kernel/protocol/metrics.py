"""What calls and runs took, in numbers alone: for `run.metrics`, and as the body of `GET metrics`."""

from dataclasses import dataclass, field

from pydantic import Field

from agent_kernel.protocol.views import View
from agent_kernel.protocol.vocabulary import CallState, DecisionSource, ErrorKind, RunStatus, TokenKind

Tokens = dict[TokenKind, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """The calls that have ended, added up. A dictionary has no key for what did not occur."""

    calls: int = 0
    outcomes: dict[CallState, int] = field(default_factory=dict)
    decided_by: dict[DecisionSource, int] = field(default_factory=dict)
    """What decided. Calls that were never decided are not in it, such as invalid ones."""
    errors: dict[ErrorKind, int] = field(default_factory=dict)
    asked: int = 0
    """How many calls waited for a person."""
    wait_seconds: float = 0.0
    """How long those waited, together."""
    ran: int = 0
    """How many calls ran to an outcome."""
    call_seconds: float = 0.0
    """How long those ran, together."""
    longest_call_seconds: float = 0.0
    result_bytes: int = 0
    """The size of their results as the model is given them, in UTF-8."""
    truncated: int = 0
    """How many results were cut for the model."""
    cache_hits: int = 0
    """How many calls got a stored outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetrics(CallTotals):
    """The measures of one run, as `run.metrics`."""

    steps: int = 0
    first_token_seconds: float | None = None
    """From the run's beginning to the first piece of an answer; `None` if there was none, or the server was restarted
    after it."""
    tokens: Tokens = field(default_factory=dict)
    cost: float | None = None
    """US dollars, as in `run.usage`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMetrics(CallTotals):
    tool: str
    """`unknown` for calls of tools that nobody declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetrics(CallTotals):
    model: str
    """`recording` where no model was asked."""
    tokens: Tokens = field(default_factory=dict)
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DayMetrics(CallTotals):
    day: str
    """`2026-11-21`, in UTC."""
    tokens: Tokens = field(default_factory=dict)
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolModelDayMetrics(CallTotals):
    tool: str
    model: str
    day: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals:
    """The runs that have ended, added up."""

    runs: int = 0
    statuses: dict[RunStatus, int] = field(default_factory=dict)
    steps: int = 0
    answered: int = 0
    """How many runs have a time to the first token."""
    first_token_seconds: float = 0.0
    """Those times, together."""


class MetricsReport(View):
    """The body of `GET metrics`. Each list has its newest entries: a hundred at most, a thousand in `rows`."""

    days: int
    since: str
    """The first of these days, in UTC."""
    totals: CallTotals = Field(default_factory=CallTotals)
    runs: RunTotals = Field(default_factory=RunTotals)
    tokens: Tokens = Field(default_factory=dict)
    cost: float | None = None
    by_tool: list[ToolMetrics] = Field(default_factory=list)
    by_model: list[ModelMetrics] = Field(default_factory=list)
    by_day: list[DayMetrics] = Field(default_factory=list)
    rows: list[ToolModelDayMetrics] = Field(default_factory=list)
    """Each tool with each model on each day."""
