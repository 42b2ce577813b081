"""Commands that clients send. Everything in them is untrusted: ids are looked up, arguments are validated again.

A command may have an `id` of the client's choice. It then gets exactly one reply with that `command_id`: an `error` if
nothing was done, a `pong`, the `session` that a `resume` led to, or else an `ack`.
"""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from agent_kernel.protocol.vocabulary import PolicyMode, Scope

MAX_FRAME_BYTES = 1_048_576
"""A larger frame is refused with INVALID_FORMAT; the connection stays open."""


COMMAND_ID_CHARACTERS = 64


class Body(BaseModel):
    """The base of bodies that HTTP and WebSocket share."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Command(Body):
    id: str | None = Field(default=None, min_length=1, max_length=COMMAND_ID_CHARACTERS)


class BudgetAddition(Body):
    """Amounts to add to each limit of a run's budget. `usd` is in US dollars, `seconds` in seconds of work."""

    tokens: int | None = Field(default=None, strict=True, gt=0, le=10**12)
    usd: float | None = Field(default=None, strict=True, gt=0, le=10**9, allow_inf_nan=False)
    tool_calls: int | None = Field(default=None, strict=True, gt=0, le=10**9)
    seconds: float | None = Field(default=None, strict=True, gt=0, le=10**9, allow_inf_nan=False)
    steps: int | None = Field(default=None, strict=True, gt=0, le=10**9)


class MessageCommand(Command):
    type: Literal["message"] = "message"
    content: str = Field(min_length=1)


class Decision(Body):
    """A person's answer to a call that waits for one."""

    approved: bool = Field(strict=True)
    reason: str | None = Field(default=None, max_length=10_000)
    edited_input: dict[str, Any] | str | None = None
    """New arguments, as a JSON object or its text. They replace the model's and are validated and judged again."""
    scope: Scope = "once"
    rule: str | None = Field(default=None, max_length=10_000)
    """The text of the offered rule to save; `None` saves the rule for every call of the tool."""
    digest: str | None = None
    """The digest that the person saw. If it is given and differs from the log's, nothing is decided."""

    @field_validator("scope", mode="before")
    @classmethod
    def _none_is_once(cls, value: Any) -> Any:
        return "once" if value is None else value

    @field_validator("edited_input", mode="before")
    @classmethod
    def _name_the_field(cls, value: Any) -> Any:
        """Pydantic would name each type that the field may have."""
        if value is not None and not isinstance(value, dict | str):
            raise ValueError("Input should be a JSON object, or its text")
        return value


class ApprovalResponseCommand(Command, Decision):
    type: Literal["approval_response"] = "approval_response"
    approval_id: str


class ToolResultCommand(Command):
    type: Literal["tool_result"] = "tool_result"
    tool_call_id: str
    output: str


class ToolCancelCommand(Command):
    type: Literal["tool_cancel"] = "tool_cancel"
    tool_call_id: str


class ToolRetryCommand(Command):
    type: Literal["tool_retry"] = "tool_retry"
    tool_call_id: str
    outside: bool = Field(default=False, strict=True)
    """For a shell command: outside the walls that it ran in."""


class ToolContinueCommand(Command):
    """Go on after a call whose outcome is unknown: the model is told that it is."""

    type: Literal["tool_continue"] = "tool_continue"
    tool_call_id: str


class ToolUndoCommand(Command):
    """Restore the file or cell that a call changed, if it is still as the call left it; to `redo`, undo that."""

    type: Literal["tool_undo"] = "tool_undo"
    tool_call_id: str
    redo: bool = False


class RuleRemoveCommand(Command):
    """Revoke an always-allow rule. Calls that have not started are judged without it."""

    type: Literal["rule_remove"] = "rule_remove"
    rule_id: str


class SendAwayCommand(Command):
    """Deny the agent outside that asks in this conversation everything in this notebook from now on, and stop its
    calls."""

    type: Literal["send_away"] = "send_away"


class PolicyChoice(Body):
    """A new policy mode for a conversation. It can't exceed the site's cap."""

    mode: PolicyMode
    decide_waiting: bool = False
    """Whether calls that wait, and that the new mode allows, are approved. Those that it denies are denied anyway."""


class PolicyCommand(Command, PolicyChoice):
    """Switch the policy of this conversation."""

    type: Literal["policy"] = "policy"


class InstructionsCommand(Command):
    """Switch a file of instructions or a skill off or on, for the next prompts of this conversation."""

    type: Literal["instructions"] = "instructions"
    file: str = Field(max_length=5_000)
    off: bool = Field(strict=True)


class BudgetAnswer(Body):
    """An answer to a paused run."""

    pause_id: str
    """The pause that the person saw. An answer to an earlier pause changes nothing."""
    add: BudgetAddition
    without_usd: bool = Field(default=False, strict=True)
    """Go on without the limit in US dollars."""


class BudgetCommand(Command, BudgetAnswer):
    """Add to the budget of a paused run, and let it go on."""

    type: Literal["budget"] = "budget"
    run_id: str


class RunRetryCommand(Command):
    """Go on with a run that ended because the model failed."""

    type: Literal["run_retry"] = "run_retry"
    run_id: str


class TryNowCommand(Command):
    """Ask the model's service again now, without the rest of a run's `delay`. Does nothing where there is none."""

    type: Literal["try_now"] = "try_now"
    run_id: str


class CancelCommand(Command):
    type: Literal["cancel"] = "cancel"
    run_id: str


class ResumeCommand(Command):
    type: Literal["resume"] = "resume"
    last_seq: int = Field(ge=0, strict=True)


class ShownCommand(Command):
    """Report whether a page shows a run. Deleting a cell does not end its run while a page still shows it, because the
    cell was moved or the run is shown in another place."""

    type: Literal["shown"] = "shown"
    run_id: str
    shown: bool = Field(strict=True)


class PingCommand(Command):
    type: Literal["ping"] = "ping"


ClientCommand = Annotated[
    MessageCommand
    | ApprovalResponseCommand
    | ToolResultCommand
    | ToolCancelCommand
    | ToolRetryCommand
    | ToolContinueCommand
    | ToolUndoCommand
    | RuleRemoveCommand
    | SendAwayCommand
    | PolicyCommand
    | InstructionsCommand
    | BudgetCommand
    | RunRetryCommand
    | TryNowCommand
    | CancelCommand
    | ResumeCommand
    | ShownCommand
    | PingCommand,
    Field(discriminator="type"),
]

client_command_adapter: TypeAdapter[ClientCommand] = TypeAdapter(ClientCommand, config=ConfigDict(defer_build=True))

COMMAND_TYPES: frozenset[str] = frozenset(
    command.model_fields["type"].default for command in get_args(get_args(ClientCommand)[0])
)
