"""Lists and reports, as HTTP bodies contain them: usage, models, and what is in force, open or changed on a host."""

from typing import Literal

from pydantic import Field

from agent_kernel.protocol.views import RuleView, RunView, ToolCallView, ToolView, View
from agent_kernel.protocol.vocabulary import ApiName, ChangeState

STATS_DAYS, MOST_DAYS = 30, 3_660
"""The default and the largest number of days in a usage report."""


ServerState = Literal["starting", "sign in", "ready", "down"]


class ServerView(View):
    """An MCP server."""

    name: str
    whose: Literal["user", "site", "folder"]
    state: ServerState
    error: str = ""
    """Why it is down."""
    tools: int = 0
    tokens: int = 0
    """About how much the declarations of its tools take of each request."""
    notes: list[str] = Field(default_factory=list)
    """What of it can't be used, and why."""


class ServerToolView(ToolView):
    """A tool in the body of `GET tools`."""

    server: str | None = None
    """The MCP server that it is from; `None` for a built-in one."""
    server_state: ServerState | None = None
    tool: str | None = None
    """Its name at the server."""


class ServersView(View):
    """The MCP servers of a host, and their tools."""

    servers: list[ServerView] = Field(default_factory=list)
    tools: list[ServerToolView] = Field(default_factory=list)
    faults: list[str] = Field(default_factory=list)
    """What is wrong with the configuration."""


class UsageTotals(View):
    """The summed usage of model turns. Recorded turns are not counted, because no model was asked."""

    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    """As in `Usage`."""
    cost_is_partial: bool = False


class ModelUsage(UsageTotals):
    model: str
    host: str
    """The endpoint's host; empty for a model without an endpoint."""


class DayUsage(UsageTotals):
    day: str
    """`2026-11-21`, in UTC."""


class NotebookUsage(UsageTotals):
    notebook: str | None
    """The notebook's path; `None` for conversations without one and for deleted ones."""


class ConversationUsage(NotebookUsage):
    conversation_id: str


class UsageReport(View):
    """The body of `GET usage`. Each list has its newest entries, at most a hundred, but for `by_day`."""

    days: int
    since: str
    """The first of these days, in UTC."""
    totals: UsageTotals
    by_model: list[ModelUsage] = Field(default_factory=list)
    by_day: list[DayUsage] = Field(default_factory=list)
    by_notebook: list[NotebookUsage] = Field(default_factory=list)
    by_conversation: list[ConversationUsage] = Field(default_factory=list)


class ListedRule(RuleView):
    """A rule in the list of all rules in force on a host."""

    conversation_id: str | None = None
    """Set for a rule that applies to one conversation."""
    folder: str | None = None
    """Set for a rule that applies to the notebooks of one folder."""
    run_id: str | None = None
    """Set for a rule that ends with a run."""


class ChangeView(View):
    """A change of a file or a cell by a call, which can be undone, or was."""

    approval_id: str
    tool_call_id: str
    conversation_id: str
    run_id: str
    tool_name: str
    path: str
    """The file's, as the call has it, or `cell:ID`."""
    state: ChangeState
    """The file's or cell's state. It can be restored while it is as the call left it."""
    changed_at: str | None
    """As in `ToolCallView.undo`."""


class UndoneView(View):
    """A change by a call of a run that was to be undone."""

    tool_call_id: str
    tool_name: str
    path: str
    """As in `ChangeView`."""
    refusal: str | None = None
    """Why it was not undone; `None` where it was, now or before."""


class RunUndoneView(View):
    """What became of the undo of a run's changes, the last change first."""

    run_id: str
    changes: tuple[UndoneView, ...] = ()


class ModelView(View):
    """A model that an endpoint offers. Fields are `None` if the endpoint does not say."""

    name: str
    """The name as `--model` takes it."""
    tools: bool | None = None
    images: bool | None = None
    context_tokens: int | None = None
    context_is_learned: bool = False
    """Whether the context is what the service named when it refused a longer request. It is forgotten when the service
    accepts a longer one."""


class EndpointView(View):
    name: str
    api: ApiName | None = None
    models: list[ModelView] = Field(default_factory=list)
    left_out: int = 0
    """How many more models it offers."""
    error: str = ""
    """Why there are no models, and what to do."""
    loading: bool = False
    """Whether that is because the server is loading its model."""


class ModelsView(View):
    """The models of all endpoints, for `GET models` and `%agent models`."""

    default: str | None = None
    default_reason: str = ""
    endpoints: list[EndpointView] = Field(default_factory=list)


PROMPT_CHARACTERS = 1_000
"""The most characters of its run's prompt that a listed call contains."""


class ListedCall(ToolCallView):
    """A call in the list of approvals, with its notebook, kernel and cell."""

    notebook: str | None = None
    """The notebook's path, if known."""
    kernel_id: str | None = None
    cell_id: str | None = None
    """The cell that started the run, if its front end names cells."""
    prompt: str = ""
    """The first `PROMPT_CHARACTERS` characters of the run's prompt."""
    client: str | None = None
    """As in `RunView`."""


class ClientView(View):
    """An agent outside that asks for calls in a notebook, or in a kernel that has none."""

    client_id: str
    client: str
    """The name that it gave, which nobody has verified."""
    user: str | None = None
    """The user on whose behalf it asks, if one is known."""
    notebook: str | None = None
    kernel_id: str | None = None
    last_asked: str | None = None
    waiting: int = 0
    """How many of its calls wait for a person."""
    rules: list[RuleView] = Field(default_factory=list)
    """Those that were saved for it in this notebook."""
    sent_away: bool = False
    """Whether one of these denies all that it asks for: it may come back once that rule is removed."""


class WaitView(View):
    """Something that a run waits for: a decision on a call (`approval`), an answer to a call's question (`answer`) or
    to its unknown outcome (`outcome`), a larger `budget`, a decision to go on although it repeats itself (`repeat`),
    the end of an earlier `run`."""

    kind: Literal["approval", "answer", "outcome", "budget", "repeat", "run"]
    tool_call_id: str | None = None
    approval_id: str | None = None
    tool_name: str | None = None
    run_id: str | None = None
    """The id of the earlier run."""


class ListedRun(RunView):
    """A run in the list of runs, with its notebook and kernel."""

    notebook: str | None = None
    """The notebook's path, if known."""
    kernel_id: str | None = None
    waits_for: list[WaitView] = Field(default_factory=list)
    """Empty while it works, and once it has ended."""
    shown: bool = False
    """Whether an open page or another client shows it now."""

    @property
    def waiting_tools(self) -> list[str]:
        """The names of the tools whose calls wait for a person."""
        return [wait.tool_name for wait in self.waits_for if wait.tool_name is not None]
