"""`Run`: one run of an agent, as the notebook's user holds it. What the kernel keeps of it is `run.RunState`."""

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Self

from agent_kernel.errors import RunFailed
from agent_kernel.notebook.run_state import RunState
from agent_kernel.protocol.views import ErrorView, MessageView, ToolCallView, Usage

if TYPE_CHECKING:
    from nbformat import NotebookNode

    # Not for jedi, by which the tab key completes names: it fails on a class with a property that is a `Literal`.
    from agent_kernel.notebook.run_state import Status


class Run:
    """One run of an agent: a prompt, what was done about it, and the answer.

    `agent.start(prompt)` and `%%agent` start one and return at once; `agent_kernel.last_run()` is the last.
    `run.wait()` or `await run` holds the cell until it ends; meanwhile its calls run there. The answer is `run.text`.
    """

    __slots__ = ("_state",)

    def __init__(self, state: RunState) -> None:
        self._state = state

    @property
    def prompt(self) -> str:
        """What was asked."""
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
        """The answer, in Markdown; "" until it is known. Raises `RunFailed` where the run failed without one."""
        end = self._state.end
        if end is None:
            return ""
        if end.run.status == "error" and not end.text:
            raise RunFailed(end.run.error.message if end.run.error is not None else "The run failed.")
        return end.text

    @property
    def tool_calls(self) -> list[ToolCallView]:
        """Each call with its arguments, its state, who decided, and its result; empty until the run has ended."""
        return [] if self._state.end is None else list(self._state.end.tool_calls)

    @property
    def messages(self) -> list[MessageView]:
        """What was said, the prompt first, and what calls gave the model; empty until the run has ended."""
        return [] if self._state.end is None else list(self._state.end.messages)

    @property
    def usage(self) -> Usage:
        """Tokens, calls and US dollars spent so far."""
        return self._state.view.usage if self._state.view is not None else Usage()

    @property
    def error(self) -> ErrorView | None:
        """Why the run failed: a `code`, and a `message` that says what to do. `None` where it did not."""
        return None if self._state.end is None else self._state.end.run.error

    @property
    def run_id(self) -> str:
        """The run's name in the log, by which `agent-kernel` finds it."""
        return self._state.run_id

    @property
    def conversation_id(self) -> str:
        """The conversation that the run belongs to, as `GET agent-kernel/api/conversations/{id}` takes it."""
        return self._state.conversation_id

    def wait(self, timeout: float | None = None) -> Self:
        """Hold this thread until the run ends; on the main thread, run its calls here. Returns the run.

        `timeout` is in seconds. Raises `TimeoutError`, which leaves the run going. An interrupt stops it.
        """
        self._state.wait(timeout)
        return self

    def cancel(self) -> None:
        """Stop the run. The call that runs is interrupted; what it did before that stays."""
        self._state.stop("script")

    def undo(self) -> list[str]:
        """Put back the files that the run's calls changed, the last first, and return their paths.

        A file that was changed since is left as it is, and so are those before it that only its old content would
        bring back. The model is told in the next prompt.
        """
        from agent_kernel.notebook.execution.undo import backups

        undone: list[str] = []
        while last := [one for one in backups.changes() if one.run_id == self.run_id and one.state == "as_left"]:
            self._state.host.undo(last[-1].approval_id)
            undone.append(last[-1].path)
        return undone

    def to_cells(self, *, whole: bool = False) -> "list[NotebookNode]":
        """The run's code as cells of a notebook (nbformat 4), in the order in which it ran; none until it has ended.

        That is the code of the calls that succeeded, as it ran: an edited call has its edited code. Shell commands are
        `%%bash` cells, written files are written again; what a cell can't repeat (an edited file, your own tools) is a
        comment. Calls that failed, were denied or never ran are left out, as are those that only looked: note that a
        call that failed may have set a variable before it did.

        `whole` adds what `agent-kernel export --notebook` has: the prompt and the answer as Markdown cells, and what
        was left out as comments.
        """
        from nbformat import from_dict

        from agent_kernel.record.cells import all_cells, as_node, code_cells

        end = self._state.end
        if end is None:
            return []
        make = all_cells(end.run, end.messages, end.tool_calls) if whole else code_cells(end.messages, end.tool_calls)
        return [from_dict(as_node(cell)) for cell in make]

    def show_here(self) -> bool:
        """Show the run's cards in this cell, too. False where it has none."""
        return self._state.show_here()

    def __await__(self) -> Generator[Any, None, Self]:
        yield from self._state.__await__()
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
        """Small on purpose: the cell that started the run shows the run itself."""
        return {"text/plain": repr(self)}


def state_of(run: Run) -> RunState:
    """What the kernel keeps of a run that a user holds."""
    return run._state
