"""All errors that Agent Kernel raises on purpose."""

from typing import Any

from agent_kernel.protocol.vocabulary import BudgetOf, Limit

SET_WHERE_IT_STARTS = (
    "where Jupyter is started; then stop the Jupyter server and start it again: restarting the kernel is not enough. "
    "Where no server runs the agent, set it in `os.environ` in a cell; nothing is restarted then."
)
"""How a new value of an environment variable is taken, after `Set NAME`."""
SERVER_AGAIN = "the Jupyter server (where no server runs the agent: the kernel)"


class AgentKernelError(Exception):
    """Base of all errors that Agent Kernel raises on purpose."""


class ConfigurationError(AgentKernelError):
    """A setting is missing or not valid; the message names it."""


class NoModelError(ConfigurationError):
    def __init__(self) -> None:
        super().__init__(
            "No model is configured. Set OPENAI_API_KEY or ANTHROPIC_API_KEY (for Ollama, vLLM or LM Studio "
            f"OPENAI_BASE_URL and AGENT_KERNEL_MODEL) {SET_WHERE_IT_STARTS} "
            "`agent-kernel doctor` says what is set. "
            "To try Agent Kernel without a key, use the recorded demo: %%agent --model demo"
        )


class LogUnavailable(ConfigurationError):
    """The log can't be opened or written, as on a full disk: nothing was done. A later attempt may succeed."""


class OtherSchema(LogUnavailable):
    """Another version of Agent Kernel wrote the log, which was left as it is."""


class ToolDeclarationError(ConfigurationError):
    """A tool can't be offered; the message names the tool and the fault."""


class NotFound(AgentKernelError):
    """There is nothing with this id."""

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
    """A decision was made for other arguments than those in the log."""


class IllegalTransition(AgentKernelError):
    """A tool call can't change from its state to the wanted one."""


class CarriedOutElsewhere(IllegalTransition):
    """Only the process that executes a run can take decisions on it, cancel it, or queue another run behind it."""

    def __init__(self) -> None:
        super().__init__(
            "Another server that uses the same log is carrying out a run of this conversation. Nothing was done: "
            "go on in that server's page, or end that server."
        )


class InvalidArguments(AgentKernelError):
    """Arguments that do not fit a tool's parameters. `field` is what holds them in the body of an HTTP request."""

    def __init__(self, message: str, *, field: str = "edited_input") -> None:
        super().__init__(message)
        self.field = field


class ModelError(AgentKernelError):
    """The model's service failed; the message gives advice."""


class ModelRefused(ModelError):
    """400, 401, 403, 404: a retry will not help."""


class ContextExceeded(ModelRefused):
    """`size` is the length of the request and `limit` that of the model's context, in tokens, as far as the service
    reports them."""

    def __init__(self, message: str, *, size: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class RecordingDiffers(ModelError):
    """A recording has no answer to what is asked, or one to something else."""


class RecordingNotWritten(ModelError):
    """As on a full disk. What was written before is whole. The message names the file and what to do."""


class ModelUnavailable(ModelError):
    """It still failed after the retries."""


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
    """Too many conversations without a run are open."""


class UndoRefused(AgentKernelError):
    """A file was changed after the call, so that the old content is not put back."""

    def __init__(self, message: str, tool_call_id: str) -> None:
        super().__init__(message)
        self.tool_call_id = tool_call_id


class ServerSilent(AgentKernelError):
    """The server did not answer a request of this kernel."""


class KernelGone(AgentKernelError):
    """The kernel died, was restarted or was shut down."""


class RunFailed(AgentKernelError):
    """Raised by `Run.text` if the run failed without an answer."""
