"""Undoes the change of a file or cell by a call. The model gets a message, because it would build on that change."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent_kernel.errors import IllegalTransition, ToolFailed, UndoRefused
from agent_kernel.log import tool_calls
from agent_kernel.log.audit import entries
from agent_kernel.protocol.events import ToolUndoneEvent
from agent_kernel.protocol.lists import ChangeView, UndoneView
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.protocol.vocabulary import ChangeState, DecidedBy
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.tools.arguments import parse
from agent_kernel.tools.builtin.cells import added_cell_id
from agent_kernel.tools.builtin.declarations import CHANGES_CELLS
from agent_kernel.tools.executor import ToolExecutor

_PATH_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Undone:
    """An undo, or a redo, that was carried out and is not yet in the log."""

    call: ToolCallView
    by: DecidedBy
    decided_by: str | None
    redo: bool

    @property
    def message(self) -> str:
        """The message to the model."""
        did, now = ("redone", "as it has left it") if self.redo else ("undone", "as it was before")
        return f"I have {did} your {self.call.tool_name} call: {_subject(self.call)} is {now}."

    def write(self, commit: Commit) -> None:
        call = self.call
        tool_calls.set_undone(commit.sql, commit.number, call.tool_call_id, undone=not self.redo)
        entries.record_undo(commit.sql, call, self.decided_by, by=self.by, redo=self.redo)
        commit.emit(
            ToolUndoneEvent(
                run_id=call.run_id, tool_call_id=call.tool_call_id, redo=self.redo, decided_by=self.decided_by
            )
        )

    def log_message(self, commit: Commit) -> None:
        """Log the message while no run is under way, for the next run's model."""
        commit.add_user_message(self.call.run_id, {"role": "user", "content": self.message})


def _subject(call: ToolCallView) -> str:
    """The path of the file, or `cell:ID`."""
    if call.tool_name == "insert_cell":
        return f"cell:{added_cell_id(call.approval_id)}"
    arguments = parse(call.tool_input)
    if call.tool_name in CHANGES_CELLS:
        return "cell:" + str(arguments.get("cell_id")).removeprefix("cell:")[:_PATH_CHARACTERS]
    return str(arguments.get("path"))[:_PATH_CHARACTERS]


def changes_of(calls: Sequence[ToolCallView]) -> list[ToolCallView]:
    """The calls whose change can be undone or was, the last change first."""
    return sorted((call for call in calls if call.undo is not None), key=lambda call: call.ended_at or "")[::-1]


def undone_view(call: ToolCallView, refusal: str | None) -> UndoneView:
    return UndoneView(tool_call_id=call.tool_call_id, tool_name=call.tool_name, path=_subject(call), refusal=refusal)


def change_view(call: ToolCallView, state: ChangeState) -> ChangeView:
    return ChangeView(
        approval_id=call.approval_id,
        tool_call_id=call.tool_call_id,
        conversation_id=call.conversation_id,
        run_id=call.run_id,
        tool_name=call.tool_name,
        path=_subject(call),
        state=state,
        changed_at=call.undo,
    )


async def put_back(
    executor: ToolExecutor | None,
    call: ToolCallView,
    by: DecidedBy,
    decided_by: str | None,
    *,
    redo: bool,
    denial: str | None = None,
) -> Undone:
    """`denial` says why the policy denies a redo. Raises `IllegalTransition` for a call that has changed nothing,
    `UndoRefused` for such a redo, and where the file or cell was changed since."""
    if call.state != "success" and call.undo is None:
        raise IllegalTransition(f"The call {call.tool_call_id} is {call.state}: there is nothing to undo.")
    if call.undone != redo:
        said = "This change was not undone." if redo else "This change was undone already."
        raise UndoRefused(said, call.tool_call_id)
    if denial is not None:
        raise UndoRefused(f"{denial} The change was not made again.", call.tool_call_id)
    if executor is None:
        raise UndoRefused("The kernel that ran this call is no longer there, nor is the old file.", call.tool_call_id)
    try:
        await executor.undo(call.approval_id, redo=redo)
    except ToolFailed as refusal:
        raise UndoRefused(str(refusal), call.tool_call_id) from None
    return Undone(call, by, decided_by, redo)
