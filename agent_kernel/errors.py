"""Every error that Agent Kernel raises on purpose.

AgentKernelError
├── ConfigurationError            something must be set; the message says what
│   ├── NoModelError              no model is configured
│   └── LogUnavailable            the log can't be opened, or takes nothing: a full disk, a read-only directory
├── ToolDeclarationError          a tool can't be offered; names the tool and the fault
├── NotFound
│   ├── UnknownConversation
│   ├── UnknownRun
│   ├── UnknownApproval
│   ├── UnknownToolCall
│   └── UnknownRule
├── AlreadyDecided                a second decision; carries the first
├── DigestMismatch                a decision was made for other arguments than the log holds
├── IllegalTransition             a tool call can't move from its state to the wanted one
│   └── CarriedOutElsewhere       another server on the same log carries out a run of the conversation
├── InvalidArguments              arguments that do not fit a tool's parameters; says which
├── ModelError                    the model's service; the message says what to do
│   ├── ModelRefused              401, 403, 400, 404: trying again will not help
│   │   └── ContextExceeded       the request is longer than the model takes
│   └── ModelUnavailable          still failing after the retries
├── BudgetExceeded                a hard limit of the run was reached
├── ToolFailed                    a built-in tool could not do what was asked; the message is for the model
├── TooManyConversations          so many that never had a run are open that no other is made
├── UndoRefused                   a file is not as a call left it, so that nothing is put back
├── ServerSilent                  the server did not answer what a cell asked
├── KernelGone                    the kernel died, was restarted or was shut down
└── RunFailed                     raised by `Run` where a result was asked for and there is none
"""

from typing import Any

from agent_kernel.protocol.vocabulary import BudgetOf, Limit


class AgentKernelError(Exception):
    """Base of all errors that Agent Kernel raises on purpose."""


class ConfigurationError(AgentKernelError):
    pass


class NoModelError(ConfigurationError):
    def __init__(self) -> None:
        super().__init__(
            "No model is configured. Start the server (or the kernel, where there is none) with OPENAI_API_KEY or "
            "ANTHROPIC_API_KEY set; "
            "for Ollama, vLLM or LM Studio set OPENAI_BASE_URL and AGENT_KERNEL_MODEL as well. "
            "`agent-kernel doctor` says what is set. "
            "To try Agent Kernel without a key, use the recorded demo: %%agent --model demo"
        )


class LogUnavailable(ConfigurationError):
    """Nothing was written, so nothing was done. It may help to try again later."""


class ToolDeclarationError(AgentKernelError):
    pass


class NotFound(AgentKernelError):
    kind = "item"

    def __init__(self, identifier: str) -> None:
        super().__init__(f"There is no {self.kind} {identifier!r}.")
        self.identifier = identifier


class UnknownConversation(NotFound):
    kind = "conversation"


class UnknownRun(NotFound):
    kind = "run"


class UnknownApproval(NotFound):
    kind = "approval"


class UnknownToolCall(NotFound):
    kind = "tool call"


class UnknownRule(NotFound):
    kind = "rule"


class AlreadyDecided(AgentKernelError):
    """The first decision stands. `first` is the tool call as that decision left it (`ToolCallView` as a dict)."""

    def __init__(self, message: str, first: dict[str, Any]) -> None:
        super().__init__(message)
        self.first = first


class DigestMismatch(AgentKernelError):
    pass


class IllegalTransition(AgentKernelError):
    pass


class CarriedOutElsewhere(IllegalTransition):
    """Only the process that carries a run out can take its decisions, stop it, or put another run behind it."""

    def __init__(self) -> None:
        super().__init__(
            "Another server that uses the same log is carrying out a run of this conversation. Nothing was done: "
            "go on in that server's page, or end that server."
        )


class InvalidArguments(AgentKernelError):
    pass


class ModelError(AgentKernelError):
    pass


class ModelRefused(ModelError):
    pass


class ContextExceeded(ModelRefused):
    """`size` is how many tokens the request had and `limit` how many the model takes, where the service said so."""

    def __init__(self, message: str, *, size: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class ModelUnavailable(ModelError):
    pass


class BudgetExceeded(AgentKernelError):
    """`what` says what was reached; `reached` names the limits, as `Budget` has them; `unpriced` says that whether they
    are can't be known. `repeated` is in words what the run repeats, where it is stopped for that."""

    def __init__(
        self,
        what: str,
        advice: str,
        reached: list[Limit],
        *,
        of: BudgetOf = "run",
        unpriced: bool = False,
        repeated: str = "",
    ) -> None:
        super().__init__(f"{what} The run stopped before its next model call. {advice}")
        self.what = what
        self.reached = reached
        self.of: BudgetOf = of
        self.unpriced = unpriced
        self.repeated = repeated


class ToolFailed(AgentKernelError):
    pass


class TooManyConversations(AgentKernelError):
    pass


class UndoRefused(AgentKernelError):
    def __init__(self, message: str, tool_call_id: str) -> None:
        super().__init__(message)
        self.tool_call_id = tool_call_id


class ServerSilent(AgentKernelError):
    pass


class KernelGone(AgentKernelError):
    pass


class RunFailed(AgentKernelError):
    pass
