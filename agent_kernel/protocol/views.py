"""What a conversation, a run and a tool call look like from outside (HTTP bodies and the `session` event)."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent_kernel.protocol.vocabulary import (
    ApiName,
    BudgetOf,
    CallState,
    ChangeState,
    DecidedBy,
    Effort,
    ErrorCode,
    Limit,
    PolicyMode,
    Role,
    RuleOrigin,
    RunStatus,
    Scope,
    UnknownAnswer,
)

ImageRefs = list[dict[str, Any]]
"""Pictures that a message refers to, as it has them: `digest`, `media_type`, `width` and `height` of each."""


class View(BaseModel):
    model_config = ConfigDict(frozen=True)


class Usage(View):
    """Tokens, calls and money spent so far."""

    input_tokens: int = 0
    """All of it, from a cache or not."""
    output_tokens: int = 0
    """With what the model thought."""
    total_tokens: int = 0
    tool_calls: int = 0
    steps: int = 0
    cached_tokens: int = 0
    """Of the input: read from the provider's cache."""
    cache_write_tokens: int = 0
    """Of the input: written to the provider's cache."""
    reasoning_tokens: int = 0
    """Of the output."""
    cost: float | None = None
    """US dollars; `None` where no price is known, or where there is none: a local model's."""
    cost_is_partial: bool = False
    """Whether more was spent than `cost` says: a price is not known, or not in full, or a turn was broken off."""
    estimated: bool = False
    """Whether some of the tokens are estimated from the text: a service did not say, or a turn was broken off."""
    seconds: float = 0.0
    """The time that the run has worked, as of its last turn: the time in which it only waited for a person is not
    counted."""


STATS_DAYS, MOST_DAYS = 30, 3_660
"""How many days of usage are told of where nobody says, and at most."""


class UsageTotals(View):
    """What turns of models took together. Recorded ones are not counted: no model was asked."""

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
    """Of its endpoint; empty for a model without one."""


class DayUsage(UsageTotals):
    day: str
    """`2026-11-21`, in UTC."""


class NotebookUsage(UsageTotals):
    notebook: str | None
    """Its path; `None` for conversations that have none, and for those that were deleted."""


class ConversationUsage(NotebookUsage):
    conversation_id: str


class UsageReport(View):
    """The body of `GET usage`: of each list the newest, no more than a hundred but for days."""

    days: int
    since: str
    """The first of them, in UTC."""
    totals: UsageTotals
    by_model: list[ModelUsage] = Field(default_factory=list)
    by_day: list[DayUsage] = Field(default_factory=list)
    by_notebook: list[NotebookUsage] = Field(default_factory=list)
    by_conversation: list[ConversationUsage] = Field(default_factory=list)


class BudgetLimits(View):
    """Hard limits; `None` means no limit. `seconds` counts the time that a run works, not the time in which it only
    waits for a person."""

    tokens: int | None = None
    usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """US dollars. A run whose cost can't be known asks, or ends; a local model costs nothing."""
    tool_calls: int | None = None
    seconds: float | None = None
    steps: int | None = None


class ConversationBudget(View):
    """The hard limits of a conversation, over all of its runs, as they hold for one of them."""

    limits: BudgetLimits
    spent: Usage
    """By the runs before this one."""
    raised: BudgetLimits = Field(default_factory=BudgetLimits)
    """What people have added to each limit, in all runs: it holds for the next ones as well."""
    without_usd: bool = False
    """Whether a person has lifted the limit in US dollars."""


class PauseView(View):
    """A run that reached a budget, or repeats itself, and waits for a person before its next model call."""

    pause_id: str
    reached: list[Limit]
    """Empty where it repeats itself."""
    of: BudgetOf = "run"
    """Whose budget it is."""
    repeated: str = ""
    """Where the run repeats itself: what, in words, such as `run_python gave the same result to the same arguments
    three times`."""
    seconds: float
    """The time that the run has taken, without its pauses."""
    since: str
    unpriced: bool = False
    """Whether what the run costs can't be known: its limit in US dollars can't be checked, only lifted."""


class BudgetRaise(View):
    """What a person added to the budget of a run that was paused, or that they let it go on."""

    pause_id: str
    add: BudgetLimits
    of: BudgetOf = "run"
    repeated: str = ""
    """As in `PauseView`."""
    without_usd: bool = False
    """Whether the limit in US dollars holds no more."""
    at: str
    decided_by: str | None = None
    steps: int
    """How many turns the model had had by then."""


class NoticeView(View):
    """Something that was done otherwise than asked, in a sentence for people: the reasoning of an earlier model was
    left out, a conversation was shortened."""

    content: str
    at: str
    steps: int
    """How many turns the model had had by then."""
    detail: str = ""
    """More of it, for whoever opens it: the summary that stands in for older messages."""


class RuleView(View):
    """A rule in force, whoever made it."""

    rule_id: str | None = None
    """Of a saved rule, by which it is removed."""
    scope: Scope | None = None
    """Where a saved rule counts."""
    tool_name: str
    """Or `*`."""
    text: str
    origin: RuleOrigin = "saved"
    made_by: str | None = None
    """The person, where one is known, or the file."""
    made_at: str | None = None


class ListedRule(RuleView):
    """A rule in the list of all that are in force on a host."""

    conversation_id: str | None = None
    """Of a rule that counts in one conversation."""
    folder: str | None = None
    """Of a rule that counts for the notebooks of one folder."""


class RuleOffer(View):
    """A rule that Always allow may save for a call."""

    text: str
    """As it will be saved."""
    label: str
    """What it allows, in words: `CSV files in exports/`."""
    note: str = ""


class PolicyView(View):
    """The policy in force for a run, as its header shows it."""

    mode: PolicyMode
    rules: list[RuleView] = Field(default_factory=list)
    cap: PolicyMode | None = None
    """The most permissive mode that the site allows; `None` where it allows every one."""
    folder_cap: PolicyMode | None = None
    """The most permissive mode that files in the notebook's folder allow."""
    limited_by: str | None = None
    """Files in the notebook's folder that tighten, and what by: `.agent-kernel.toml: plan, 2 rules`."""
    notes: list[str] = Field(default_factory=list)
    """What else decides, or was asked for and is not in force, each in a sentence for people."""


class PolicySwitchView(View):
    """What came of a switch of a conversation's policy: the body that `POST conversations/{id}/policy` answers with."""

    conversation_id: str
    run_id: str | None
    """The run that was under way."""
    before: PolicyMode
    mode: PolicyMode
    waiting: int
    """How many calls wait for a decision still."""


class ErrorView(View):
    code: ErrorCode
    message: str


class ToolView(View):
    name: str
    description: str
    parameters: dict[str, Any]
    approval: Literal["ask", "allow", "deny", "dynamic"]


class MessageView(View):
    message_id: str
    run_id: str | None
    role: Role
    content: str
    tool_calls: list[str] = Field(default_factory=list)
    """Ids of the calls that an assistant message asked for."""
    tool_call_id: str | None = None
    """The call that a tool message answers."""
    reasoning: str = ""


class Preview(View):
    """What a client shows in place of raw arguments."""

    kind: Literal["code", "diff", "text"]
    language: str = ""
    """Of code. A diff has `diff`, or `piece` where its line numbers count within a piece of a file."""
    text: str
    facts: list[str] = Field(default_factory=list)
    """Of the file that the call would change, as it was when this was made: `Replaces 360 kB, 4,000 lines.`"""
    left_out: str = ""
    """What `text` leaves out of a long diff: `And 37 more changes.` The arguments have all of it."""
    base: str = ""
    """Names what the file held then. A call that a person approved writes over nothing else."""


class Warning(View):
    """Something the call was seen to do, found by reading it: `Writes files:` + `exports/x.csv`."""

    title: str
    detail: str = ""


class OutputView(View):
    """One live output: a stream chunk, or a MIME bundle."""

    kind: Literal["stream", "display", "error", "clear"]
    name: Literal["stdout", "stderr"] | None = None
    text: str = ""
    data: dict[str, Any] = Field(default_factory=dict)
    """MIME type to content; base64 for images."""
    display_id: str | None = None
    """Set where a later output with the same id replaces this one."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Of the bundle, as nbformat has it: some keys are MIME types (`{"image/png": {"width": 640}}`)."""


class Place(View):
    """Where the path of a file tool's call leads, links followed. Found once for a call: it is judged by it, and opens
    nothing else."""

    path: str = Field(max_length=8_192)
    """Absolute; empty where it is not known."""
    inside: str | None = Field(default=None, max_length=8_192)
    """From the notebook's folder, with `/`; `None` outside of it."""
    linked: bool = False
    """Whether a link leads there."""

    def spellings(self) -> tuple[str, ...]:
        """What rules compare with, the shortest first."""
        return (self.path,) if self.inside is None else (self.inside, self.path)


class ToolCallView(View):
    tool_call_id: str
    approval_id: str
    conversation_id: str
    run_id: str
    tool_name: str
    tool_input: str
    """The arguments as the JSON text that runs."""
    digest: str
    state: CallState
    reason: str | None = None
    by: DecidedBy | None = None
    result: str | None = None
    # Beyond the public contract, for clients:
    decided_by: str | None = None
    """A person's name, where one is known."""
    edited: bool = False
    recorded: bool = False
    read_only: bool = False
    warnings: list[Warning] = Field(default_factory=list)
    preview: Preview | None = None
    created_at: str
    decided_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    duration_ms: int | None = None
    truncated: bool = False
    output_file: str | None = None
    outputs: list[OutputView] = Field(default_factory=list)
    scopes: list[Scope] = Field(default_factory=list)
    """While it waits: where a decision may count."""
    rules: list[RuleOffer] = Field(default_factory=list)
    """While it waits: what Always allow may save."""
    undo: str | None = None
    """As `tool_complete` has it."""
    undone: bool = False
    waiting_behind: int | None = None
    """As `tool_state` has it."""
    unknown_answer: UnknownAnswer | None = None
    """What a person has said about an unknown outcome; the run waits for that."""
    seen_images: int = 0
    """How many of the pictures that it showed the model was given."""
    place: Place | None = None
    """Of a file tool's call: what it was judged by, and may open."""


class FileChangeView(View):
    """A change of a file by a call that succeeded, whose kernel knows the way back, or has gone back."""

    approval_id: str
    tool_call_id: str
    run_id: str
    tool_name: str
    path: str
    state: ChangeState
    """Of the file, which can be put back where it is as the call left it."""
    changed_at: str | None
    """As `ToolCallView.undo`."""


class RunView(View):
    run_id: str
    conversation_id: str
    prompt: str
    status: RunStatus
    model: str
    effort: Effort | None = None
    """How much the model was asked to reason; `None` leaves it to the model."""
    continues: int | None = None
    """The number of the cell whose conversation it continues, as in `[2]`; `None` where it begins one."""
    cell_id: str | None = None
    """The cell that started it, where its front end names cells."""
    recorded: bool
    policy: PolicyView
    usage: Usage
    budget: BudgetLimits
    started_at: str
    ended_at: str | None = None
    error: ErrorView | None = None
    paused: PauseView | None = None
    """Set while it waits for a larger budget, or for word to go on; its status is `running` all the while."""
    raises: list[BudgetRaise] = Field(default_factory=list)
    conversation_budget: ConversationBudget | None = None
    """`None` where the conversation has none."""
    notices: list[NoticeView] = Field(default_factory=list)


class ModelView(View):
    """A model that an endpoint offers. `None` where nobody says."""

    name: str
    """As `--model` takes it."""
    tools: bool | None = None
    images: bool | None = None
    context_tokens: int | None = None


class EndpointView(View):
    name: str
    api: ApiName | None = None
    models: list[ModelView] = Field(default_factory=list)
    left_out: int = 0
    """How many more it offers."""
    error: str = ""
    """Why there are none, and what to do."""


class ModelsView(View):
    """What `GET models` and `%agent models` say."""

    default: str | None = None
    default_reason: str = ""
    endpoints: list[EndpointView] = Field(default_factory=list)


PROMPT_CHARACTERS = 1_000
"""How much of its run's prompt a listed call has."""


class ListedCall(ToolCallView):
    """A call in the list of approvals, with the place that it belongs to."""

    notebook: str | None = None
    """The notebook's path, where one is known."""
    kernel_id: str | None = None
    cell_id: str | None = None
    """The cell that started the run, where its front end names cells."""
    prompt: str = ""
    """What the run was asked: no more than the beginning of it."""


class WaitView(View):
    """Something that a run waits for: a decision on a call, an answer to its question, what is to become of its unknown
    outcome; a larger budget; word to go on, because it repeats itself; the end of an earlier run."""

    kind: Literal["approval", "answer", "outcome", "budget", "repeat", "run"]
    tool_call_id: str | None = None
    approval_id: str | None = None
    tool_name: str | None = None
    run_id: str | None = None
    """The earlier run."""


class ListedRun(RunView):
    """A run in the list of runs, with the place that it belongs to."""

    notebook: str | None = None
    """This and the next as in `ListedCall`."""
    kernel_id: str | None = None
    waits_for: list[WaitView] = Field(default_factory=list)
    """Empty while it works, and once it has ended."""

    @property
    def waiting_tools(self) -> list[str]:
        """The tools of the calls that wait for a person."""
        return [wait.tool_name for wait in self.waits_for if wait.tool_name is not None]


class ConversationView(View):
    conversation_id: str
    kernel_id: str | None
    model: str | None
    status: Literal["idle", "running", "awaiting_approval"]
    created_at: str
    messages: list[MessageView]
    tool_calls: list[ToolCallView]
    last_seq: int
    runs: list[RunView] = Field(default_factory=list)
