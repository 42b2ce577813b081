"""Views of conversations, runs and tool calls, as HTTP bodies and the `session` event contain them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent_kernel.protocol.calls import Place
from agent_kernel.protocol.vocabulary import (
    BudgetLimits,
    BudgetOf,
    CallState,
    DecidedBy,
    DelayKind,
    Effort,
    ErrorCode,
    FinishReason,
    Limit,
    PolicyMode,
    Role,
    RuleOrigin,
    RunStatus,
    Scope,
    UnknownAnswer,
)

ImageRefs = list[dict[str, Any]]
"""References to pictures in a message: `digest` (SHA-256), `media_type`, `width` and `height` of each."""


class View(BaseModel):
    # `defer_build`: a process uses few of these models.
    model_config = ConfigDict(frozen=True, defer_build=True)


class Usage(View):
    """Tokens, calls and money spent so far."""

    input_tokens: int = 0
    """The whole input, cached or not."""
    output_tokens: int = 0
    """The whole output, reasoning included."""
    total_tokens: int = 0
    tool_calls: int = 0
    steps: int = 0
    cached_tokens: int = 0
    """The part of the input that was read from the provider's cache."""
    cache_write_tokens: int = 0
    """The part of the input that was written to the provider's cache."""
    reasoning_tokens: int = 0
    """The part of the output that is reasoning."""
    cost: float | None = None
    """US dollars; `None` if no price is known, or if there is none, as for local models."""
    cost_is_partial: bool = False
    """Whether `cost` is a lower bound: a price is unknown or incomplete, or a turn was cut off."""
    cost_is_reported: bool = False
    """Whether some of `cost` is the service's own figure, not that of the table of prices."""
    estimated: bool = False
    """Whether some of the tokens are estimated from the text, because a service reported none or a turn was cut off."""
    seconds: float = 0.0
    """How long the run has worked, as of its last turn, without the time in which it only waited for a person."""


class ConversationBudget(View):
    """The hard limits over all runs of a conversation, as seen by one run."""

    limits: BudgetLimits
    spent: Usage
    """What the runs before this one have spent."""
    raised: BudgetLimits = Field(default_factory=BudgetLimits)
    """What people have added to each limit, in all runs. It stays in force for later runs."""
    without_usd: bool = False
    """Whether a person has lifted the limit in US dollars."""


class PauseView(View):
    """Why a run waits for a person before its next model request: it reached a budget, or it repeats itself."""

    pause_id: str
    reached: list[Limit]
    """The limits that were reached; empty if the run repeats itself."""
    of: BudgetOf = "run"
    """Which budget was reached."""
    repeated: str = ""
    """If the run repeats itself: what it repeats, such as `run_python gave the same result to the same arguments three
    times`."""
    seconds: float
    """How long the run has taken, without its pauses."""
    since: str
    unpriced: bool = False
    """Whether the run's cost is unknown, so that its limit in US dollars can't be checked, only lifted."""


class BudgetRaise(View):
    """A person's answer to a pause: what they added to the budget, or that the run may go on."""

    pause_id: str
    add: BudgetLimits
    of: BudgetOf = "run"
    repeated: str = ""
    """As in `PauseView`."""
    without_usd: bool = False
    """Whether the limit in US dollars was lifted."""
    at: str
    decided_by: str | None = None
    steps: int
    """How many turns the model had had by then."""


class DelayView(View):
    """Why a run does not go on at the moment, where that is no person: its model's service is asked again, or is slow.
    It goes with the first piece of an answer."""

    kind: DelayKind
    since: str
    until: str | None = None
    """When the next try begins, or began; `None` where that is not worth to be told, as while the model is loaded, and
    where there is none."""
    attempt: int
    """The number of the next try: 2 after the first one has failed. 1 while that is still waited for."""
    tries: int | None = None
    """The most tries that there are."""
    cause: str
    """What went wrong, as a sentence or in the service's words."""


class NoticeView(View):
    """A sentence for display about something that was done differently than asked, such as that the conversation was
    shortened or that an earlier model's reasoning was left out."""

    content: str
    at: str
    steps: int
    """How many turns the model had had by then."""
    detail: str = ""
    """Details to unfold, such as the summary that replaces older messages."""


class RuleView(View):
    """A rule in force, from any origin."""

    rule_id: str | None = None
    """Set for a saved rule, which can be removed by it."""
    scope: Scope | None = None
    """Where a saved rule applies."""
    tool_name: str
    """The tool's name, or `*`."""
    text: str
    origin: RuleOrigin = "saved"
    made_by: str | None = None
    """The person, if known, or the file."""
    made_at: str | None = None


class RuleOffer(View):
    """A rule that a decision on a call can save."""

    text: str
    """The rule as it is saved."""
    label: str
    """What it allows, for display: `CSV files in exports/`."""
    note: str = ""
    scopes: list[Scope] = Field(default_factory=list)
    """Where it can be saved, from narrow to wide."""


class PolicyView(View):
    """The policy in force for a run, as its header shows it."""

    mode: PolicyMode
    rules: list[RuleView] = Field(default_factory=list)
    cap: PolicyMode | None = None
    """The most permissive mode that the site allows; `None` if it allows all."""
    folder_cap: PolicyMode | None = None
    """The most permissive mode that files in the notebook's folder allow."""
    limited_by: str | None = None
    """The files in the notebook's folder that tighten the policy, and how: `.agent-kernel.toml: plan, 2 rules`."""
    notes: list[str] = Field(default_factory=list)
    """Sentences for display: what else decides, and what was asked for and is not in force."""


class PolicySwitchView(View):
    """The result of switching a conversation's policy: the response body of `POST conversations/{id}/policy`."""

    conversation_id: str
    run_id: str | None
    """The run that was under way, if there was one."""
    before: PolicyMode
    mode: PolicyMode
    waiting: int
    """How many calls still wait for a decision."""


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
    """The ids of the calls that an assistant message asks for."""
    tool_call_id: str | None = None
    """The call that a tool message answers."""
    reasoning: str = ""


class Preview(View):
    """What a client shows in place of the raw arguments."""

    kind: Literal["code", "diff", "text"]
    language: str = ""
    """The language of code. A diff has `diff`, or `piece` if its line numbers count within a piece of a file."""
    text: str
    facts: list[str] = Field(default_factory=list)
    """Facts about the file that the call would change, as it was at this time: `Replaces 360 kB, 4,000 lines.`"""
    left_out: str = ""
    """What `text` omits of a long diff: `And 37 more changes.` The arguments contain all of it."""
    cell: int | None = None
    """The number of the cell that the call is about, as it stood before it: `[3]`. `None` where it has none."""
    base: str = ""
    """Identifies the file's content at this time. An approved call overwrites no other content."""


class Warning(View):
    """Something that the call would do, found by reading its code: `Writes files:` + `exports/x.csv`."""

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
    """Set if a later output with the same id replaces this one."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """The bundle's metadata as in nbformat; some keys are MIME types (`{"image/png": {"width": 640}}`)."""


class ToolCallView(View):
    tool_call_id: str
    approval_id: str
    conversation_id: str
    run_id: str
    tool_name: str
    tool_input: str
    """The arguments that run, as JSON text."""
    digest: str
    state: CallState
    reason: str | None = None
    by: DecidedBy | None = None
    result: str | None = None
    # Beyond the public contract, for clients:
    decided_by: str | None = None
    """The name of the person who decided, if known."""
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
    """While the call waits: the scopes that a decision may have."""
    rules: list[RuleOffer] = Field(default_factory=list)
    """While the call waits: the rules that a decision can save."""
    undo: str | None = None
    """As in `ToolCompleteEvent`."""
    undone: bool = False
    waiting_behind: int | None = None
    """As in `ToolStateEvent`."""
    unknown_answer: UnknownAnswer | None = None
    """A person's answer to an unknown outcome, for which the run waits."""
    seen_images: int = 0
    """How many of the pictures that the call displayed were given to the model."""
    place: Place | None = None
    """For a file tool's call: the place that it was judged by and may open."""
    cached_at: str | None = None
    """As in `ToolCompleteEvent`."""


class InstructionView(View):
    """A file that says how to work, or a skill, that the model is told of."""

    file: str
    """From the notebook's folder: `AGENTS.md`, `../AGENTS.md`; `your AGENTS.md` is the user's own."""
    digest: str
    """The beginning of a SHA-256 of what the model is told."""
    characters: int = 0
    beginning: str = ""
    """What a file says, as far as a page shows it; empty for a skill."""
    skill: bool = False
    off: bool = False
    """Whether a person has switched it off: the next prompts of the conversation go without it."""


class RunView(View):
    run_id: str
    conversation_id: str
    prompt: str
    status: RunStatus
    model: str
    effort: Effort | None = None
    """How much the model is asked to reason; `None` leaves it to the model."""
    continues: int | None = None
    """The execution count of the cell whose conversation it continues, as in `[2]`; `None` if it begins one."""
    cell_id: str | None = None
    """The cell that started it, if its front end names cells."""
    lean: bool = False
    """Whether the model gets a short system prompt and fewer tools, because its context is small."""
    recorded: bool
    client: str | None = None
    """The agent outside that asked for its one call, by the name that it gave, which nobody has verified."""
    policy: PolicyView
    usage: Usage
    budget: BudgetLimits
    started_at: str
    ended_at: str | None = None
    error: ErrorView | None = None
    finish_reason: FinishReason | None = None
    """How its last answer ended, as in `complete`; `None` before its end."""
    paused: PauseView | None = None
    """Set while it waits for a larger budget, or for a decision to go on; its status stays `running`."""
    delay: DelayView | None = None
    """Set while its model has failed to answer and is asked again; its status stays `running`."""
    raises: list[BudgetRaise] = Field(default_factory=list)
    conversation_budget: ConversationBudget | None = None
    """`None` if the conversation has none."""
    notices: list[NoticeView] = Field(default_factory=list)
    mentions: list[str] = Field(default_factory=list)
    """What its prompts mention, as `@sales`, that the model was told of."""
    instructions: list[InstructionView] = Field(default_factory=list)


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
