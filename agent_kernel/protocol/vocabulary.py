"""The closed sets of words on the wire: states, statuses, codes, modes."""

import math
from dataclasses import asdict, dataclass
from typing import Literal

PROTOCOL_VERSION = 1

CallState = Literal[
    "proposed",
    "invalid",
    "awaiting_approval",
    "approved",
    "executing",
    "success",
    "error",
    "denied",
    "cancelled",
    "superseded",
    "expired",
    "unknown",
]
"""The states of a tool call. `agent_kernel.log.tool_calls` owns the transitions between them."""

STATE_WORDS: dict[CallState, str] = {
    "proposed": "Preparing",
    "invalid": "Not valid",
    "awaiting_approval": "Waiting for you",
    "approved": "Approved, next in line",
    "executing": "Running",
    "success": "Done",
    "error": "Failed",
    "denied": "Denied",
    "cancelled": "Cancelled",
    "superseded": "Replaced",
    "expired": "Expired",
    "unknown": "Outcome unknown",
}
"""The states as a person reads them."""


def standing(state: CallState) -> str:
    """How a call stands, as a sentence that follows what can't be done with it."""
    return f"The call's state: {STATE_WORDS[state].lower()}."


OutcomeStatus = Literal["success", "error", "denied", "cancelled", "unknown"]
"""How a call ended, as clients and the model are told; finer states are reported as one of these."""

ExecutionStatus = Literal["success", "error", "cancelled", "unknown"]
"""How an executor says that a call ended."""

CallPhase = Literal["deposited", "running", "done", "unknown"]
"""The state of a call in the kernel: waiting for the main thread, running, ended, or not known."""

ChangeState = Literal["as_left", "changed", "undone"]
"""Whether a file is as a call left it, was changed since, or was put back."""

UnknownAnswer = Literal["continue", "retry"]
"""A person's answer to an unknown outcome: tell the model that it is unknown, or have it ask for the call again."""

StopCause = Literal["script", "cell_run_again", "cell_deleted", "interrupted"]
"""Why a kernel stops one of its runs: the user's code asked for it (`script`), its cell was run again or deleted, or
the kernel was interrupted."""

RunStatus = Literal["queued", "running", "complete", "cancelled", "error"]
DecidedBy = Literal["user", "policy", "script"]
DecisionSource = Literal["user", "policy", "rule", "script", "recording"]
"""What decided a call, for measures: a rule is told apart from the rest of policy, a recording from a script."""

ErrorKind = Literal["invalid", "failed", "timed_out", "unknown"]
"""Why a call has no result, for measures: it was not valid, its tool failed or took too long, or that is not known."""

TokenKind = Literal["input", "cached", "output", "reasoning"]
"""The tokens of measures. `cached` is a part of `input`, `reasoning` of `output`."""

Scope = Literal["once", "run", "conversation", "project", "user"]
Approval = Literal["ask", "allow", "deny"]
RuleOrigin = Literal["saved", "code", "site", "folder"]
"""Who made a rule: a person by Always allow, the notebook's code, the site's configuration, or a file in the notebook's
folder. Only a saved one can be removed."""

Limit = Literal["tokens", "usd", "tool_calls", "steps", "seconds"]
"""What a budget limits."""

BudgetOf = Literal["run", "conversation"]
"""Which budget is meant: that of the run, or of its conversation."""

Effort = Literal["low", "medium", "high"]
"""How much a model should reason, as providers name it."""

OnChange = Literal["strict", "warn"]
"""What happens where a recording no longer fits what a model is asked: the run stops, or goes on with a notice."""

DelayKind = Literal["rate_limited", "overloaded", "loading", "failed", "slow"]
"""Why a model has not begun to answer: its service limits how often or how much it is asked, has too much to do, loads
the model, failed in another way, or, where nothing is asked again, is slow."""

ApiName = Literal["chat", "responses", "messages"]
"""The three APIs of models: OpenAI's Chat Completions and Responses, Anthropic's Messages."""

WallLevel = Literal["none", "workspace", "read-only"]
"""What the walls around a shell command let through, from loose to strict: everything; writing in the notebook's folder
and a private temporary one; reading alone. Neither of the strict ones has a network."""

WallKind = Literal["bubblewrap", "Landlock", "none"]
"""How a machine puts up walls."""

PolicyMode = Literal["ask", "edit", "allow", "deny", "plan"]
"""`edit`: as `ask`, and files in the notebook's folder may be written."""

Role = Literal["user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "content_filter", "cancelled", "error"]
ErrorCode = Literal[
    "INVALID_FORMAT",
    "ACCESS_DENIED",
    "LLM_ERROR",
    "TOOL_ERROR",
    "BUDGET_EXCEEDED",
    "KERNEL_DIED",
    "CONFLICT",
    "INTERNAL_ERROR",
]

RECORDING_CHANGED = "The recording no longer fits"
"""How each message begins that a recording differs from what a model is asked now."""

OWN_MODEL_FAILED = "Your model object failed"
"""How each message begins about a model that is a Python object of the user's."""

CUT_OFF = "The answer was cut off"
"""How each message begins that an answer broke off, so that it is not whole."""

CUT_BY_LENGTH = "The answer was cut off where it reached its length limit. Ask for the rest, or for less at once."
"""The notice of a run whose last answer has the finish reason `length`."""

RESULT_MARK = "agent_kernel"
"""The metadata key of outputs that show a run's results. Its value names the run and the number of the call."""

RUN_VIEW = "application/vnd.agent-kernel.run+json"
"""The MIME type of a live run, beside its widget. Its `run_id` names a run at the server, which the JupyterLab
extension draws without a widget; it is missing where the run is in the kernel."""

OPEN_RUN_MARK = "agent_kernel_open_run"
"""The metadata key of an output that was saved while its run went on. Its value is the run's id."""

ENVIRONMENT_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
"""The environment variables that hold keys of model services."""


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Hard limits; `None` means no limit. `seconds` counts the time in which a run works, not the time in which it only
    waits for a person. Raises `ValueError` for an amount of money below 0, or one that is no number."""

    tokens: int | None = None
    usd: float | None = None
    """US dollars. A run whose cost can't be known pauses or ends; a local model costs nothing."""
    tool_calls: int | None = None
    seconds: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.usd is not None and not 0 <= self.usd < math.inf:
            raise ValueError("usd is a number from 0 up")

    def given(self) -> dict[str, float]:
        """The limits that there are, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}
