"""All errors that Agent Kernel raises on purpose.

AgentKernelError
├── ConfigurationError            a setting is missing or not valid; the message names it
│   ├── NoModelError              no model is configured
│   ├── ToolDeclarationError      a tool can't be offered; the message names the tool and the fault
│   └── LogUnavailable            the log can't be opened or written: a full disk, a read-only directory
│       └── OtherSchema           another version of Agent Kernel wrote it
├── NotFound                      there is nothing with this id
│   ├── UnknownConversation
│   ├── UnknownRun
│   ├── UnknownApproval
│   ├── UnknownToolCall
│   └── UnknownRule
├── AlreadyDecided                a second decision; has the first one
├── DigestMismatch                a decision was made for other arguments than those in the log
├── IllegalTransition             a tool call can't change from its state to the wanted one
│   └── CarriedOutElsewhere       another server on the same log executes a run of the conversation
├── InvalidArguments              arguments that do not fit a tool's parameters; the message says which
├── ModelError                    the model's service failed; the message gives advice
│   ├── ModelRefused              400, 401, 403, 404: a retry will not help
│   │   └── ContextExceeded       the request is longer than the model's context
│   ├── RecordingDiffers          a recording has no answer to what is asked, or one to something else
│   ├── RecordingNotWritten       a recording can't be written: a full disk, a folder that is gone
│   ├── ModelUnavailable          it still failed after the retries
│   └── NoAnswer                  what it sent is no answer: empty, refused, ... (in agent_kernel.models.no_answer)
├── BudgetExceeded                a limit of the run was reached
├── ToolFailed                    a built-in tool failed; the message is for the model
├── TooManyConversations          too many conversations without a run are open
├── UndoRefused                   a file was changed after the call, so that the old content is not put back
├── ServerSilent                  the server did not answer a request of this kernel
├── KernelGone                    the kernel died, was restarted or was shut down
└── RunFailed                     raised by `Run.text` if the run failed without an answer
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
    """Nothing was written, so nothing was done. A later attempt may succeed."""


class OtherSchema(LogUnavailable):
    """The log was left as it is."""


class ToolDeclarationError(ConfigurationError):
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
    """The first decision counts. `first` is the tool call after that decision (`ToolCallView` as a dict)."""

    def __init__(self, message: str, first: dict[str, Any]) -> None:
        super().__init__(message)
        self.first = first


class DigestMismatch(AgentKernelError):
    pass


class IllegalTransition(AgentKernelError):
    pass


class CarriedOutElsewhere(IllegalTransition):
    """Only the process that executes a run can take decisions on it, cancel it, or queue another run behind it."""

    def __init__(self) -> None:
        super().__init__(
            "Another server that uses the same log is carrying out a run of this conversation. Nothing was done: "
            "go on in that server's page, or end that server."
        )


class InvalidArguments(AgentKernelError):
    """`field` is what holds them in the body of an HTTP request."""

    def __init__(self, message: str, *, field: str = "edited_input") -> None:
        super().__init__(message)
        self.field = field


class ModelError(AgentKernelError):
    pass


class ModelRefused(ModelError):
    pass


class ContextExceeded(ModelRefused):
    """`size` is the length of the request and `limit` that of the model's context, in tokens, as far as the service
    reports them."""

    def __init__(self, message: str, *, size: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class RecordingDiffers(ModelError):
    pass


class RecordingNotWritten(ModelError):
    """What was written before is whole. The message names the file and what to do."""


class ModelUnavailable(ModelError):
    pass


class BudgetExceeded(AgentKernelError):
    """`what` is a sentence on what was reached; `reached` are the limits by their names in `Budget`; `unpriced` means
    that the cost is not known. `repeated` describes the calls that a run repeats, if it is stopped for that."""

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
    """`shown` is what a card shows of the message, where it shows the rest as the call's output."""

    def __init__(self, message: str, *, shown: str | None = None) -> None:
        super().__init__(message)
        self.shown = message if shown is None else shown


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
