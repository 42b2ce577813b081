"""`Run`: the object by which a user holds one run of an agent. It is a view of the kernel's `RunState`."""

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Self

from agent_kernel.errors import RunFailed
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.notebook.kernel.wait import wait, wait_async
from agent_kernel.protocol.kernel_events import AskUndoRun
from agent_kernel.protocol.metrics import RunMetrics
from agent_kernel.protocol.views import Usage
from agent_kernel.record.as_cells import all_cells, as_node, code_cells

if TYPE_CHECKING:
    from nbformat import NotebookNode

    # Hidden from jedi, by which the tab key completes names: it fails on a class with a property that is a `Literal`.
    from agent_kernel.notebook.kernel.run_state import Status
    from agent_kernel.protocol.views import ErrorView, MessageView, ToolCallView
    from agent_kernel.protocol.vocabulary import FinishReason


class Run:
    """One run of an agent: a prompt, the calls that were made for it, and the answer.

    `agent.start(prompt)` and `%%agent` start a run and return at once; `agent_kernel.last_run()` returns the last one.
    `run.wait()` or `await run` holds the cell until it ends; its calls run there meanwhile. The answer is `run.text`.
    """

    __slots__ = ("_kernel_state", "_state")

    def __init__(self, kernel_state: KernelState, state: RunState) -> None:
        self._kernel_state = kernel_state
        self._state = state

    @property
    def prompt(self) -> str:
        """The prompt, as it was given."""
        return self._state.prompt

    @property
    def status(self) -> "Status":
        """One of "running", "complete", "cancelled" or "error".

        It is "running" also while the run waits for an earlier one of its conversation, or for an approval.
        """
        return self._state.status

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._state.done

    @property
    def text(self) -> str:
        """The answer, in Markdown; "" until there is one. Raises `RunFailed` if the run failed without one."""
        end = self._state.end
        if end is None:
            return ""
        if end.run.status == "error" and not end.text:
            self._state.failure_handled = True  # by whoever catches this error
            raise RunFailed(end.run.error.message if end.run.error is not None else "The run failed.")
        return end.text

    @property
    def tool_calls(self) -> "list[ToolCallView]":
        """Each call with its arguments, state, decision and result; empty until the run has ended."""
        return [] if self._state.end is None else list(self._state.end.tool_calls)

    @property
    def messages(self) -> "list[MessageView]":
        """The messages in order: the prompt, the answers, and the calls' results; empty until the run has ended."""
        return [] if self._state.end is None else list(self._state.end.messages)

    @property
    def usage(self) -> "Usage":
        """The tokens, calls and US dollars used so far."""
        if self._state.view is not None:
            return self._state.view.usage
        return Usage()

    @property
    def error(self) -> "ErrorView | None":
        """Why the run failed, as a `code` and a `message` with advice; `None` if it did not fail.

        Who reads it handles the failure: it does not fail the cell in a notebook that runs without a page.
        """
        end = self._state.end
        if end is None:
            return None
        self._state.failure_handled = True
        return end.run.error

    @property
    def finish_reason(self) -> "FinishReason | None":
        """How the last answer ended: "stop", or "length" if it was cut off where it reached its length limit.

        It is "error" or "cancelled" as `status` is, and `None` until the run has ended.
        """
        return None if self._state.end is None else self._state.end.run.finish_reason

    @property
    def metrics(self) -> RunMetrics:
        """How its calls were decided and ended, times, sizes, tokens and cost; zeros until the run has ended."""
        return RunMetrics() if self._state.end is None else self._state.end.metrics

    @property
    def run_id(self) -> str:
        """The run's id in the log, as `agent-kernel export` takes it."""
        return self._state.run_id

    @property
    def conversation_id(self) -> str:
        """The id of the run's conversation, as `GET agent-kernel/api/conversations/{id}` takes it."""
        return self._state.conversation_id

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the run ends, and return the run. On the main thread, its calls run here meanwhile.

        `timeout` is in seconds. Raises `TimeoutError`, which leaves the run going, and `KeyboardInterrupt` after an
        interrupt, which cancels it.
        """
        wait(self._kernel_state, self._state, timeout)
        return self

    def cancel(self) -> None:
        """Cancel the run. A call that is running is interrupted; its effects so far stay."""
        self._state.cancel("script")

    def undo(self) -> list[str]:
        """Put back the files and cells that the run's calls changed, the last first, and return what was put back: the
        paths of files, the names of cells.

        What was changed since is left as it is, and so are earlier changes of it. The next prompt tells the model.
        """
        changes = self._state.host.ask(AskUndoRun(run_id=self.run_id)).changes
        return [one.path for one in changes if one.refusal is None]

    def to_cells(self, *, whole: bool = False) -> "list[NotebookNode]":
        """The run's code as nbformat 4 cells, in the order in which it ran; empty until the run has ended.

        The cells are the calls that succeeded, with the code that ran: that of an edited call is the edited one. Shell
        commands become `%%bash` cells, and written files are written again. Calls that a cell can't repeat (an edited
        file, your own tools) are comments. Calls that failed, were denied or never ran are left out, as are those that
        only read. A failed call may still have set a variable before it failed.

        `whole` adds the prompt and the answer as Markdown cells, and the calls that were left out as comments, as
        `agent-kernel export --notebook` does.
        """
        from nbformat import from_dict  # with jsonschema, which takes long to import

        end = self._state.end
        if end is None:
            return []
        make = all_cells(end.run, end.messages, end.tool_calls) if whole else code_cells(end.messages, end.tool_calls)
        return [from_dict(as_node(cell)) for cell in make]

    def show_here(self) -> bool:
        """Show the run's cards in the current cell as well. Returns False if it has none."""
        return self._state.host.show_here(self._state)

    def __await__(self) -> Generator[Any, None, Self]:
        yield from wait_async(self._kernel_state, self._state).__await__()
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other._state is self._state

    def __hash__(self) -> int:
        return hash(self._state)

    def __repr__(self) -> str:
        count = len(self.tool_calls)
        calls = f", {count} tool call{'' if count == 1 else 's'}" if count else ""
        return f"<Run {self.status}{calls}: {self.prompt.strip()[:60]!r}>"

    def _repr_mimebundle_(self, **_: Any) -> Mapping[str, str]:
        """Text only: the cell that started the run shows the run itself."""
        return {"text/plain": repr(self)}


def state_of(run: Run) -> RunState:
    """The state behind a user's `Run`."""
    return run._state  # noqa: SLF001 -- of this module
