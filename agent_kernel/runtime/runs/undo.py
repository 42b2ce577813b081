"""Undoes the change of a file or cell by a call, or makes it again. The model gets a message, because it would build on
that change."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from agent_kernel.approvals.rules import JudgedCall
from agent_kernel.errors import IllegalTransition, ToolFailed, UndoRefused
from agent_kernel.log import audit, tool_calls
from agent_kernel.log.runs import ConversationRow, read_spec
from agent_kernel.protocol.events import ToolUndoneEvent
from agent_kernel.protocol.lists import ChangeView, UndoneView
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.protocol.vocabulary import ChangeState, DecidedBy, standing
from agent_kernel.runtime.runs.lifecycle import with_limits
from agent_kernel.runtime.runs.recovery import UNREADABLE
from agent_kernel.runtime.runs.specs import restored
from agent_kernel.runtime.state.active_run import Resources
from agent_kernel.runtime.state.commits import Commit, commit_to
from agent_kernel.runtime.tasks import in_thread_if_long
from agent_kernel.runtime.tool_calls.effective_policy import effective_policy, read_stored_policy, take_in_user_rules
from agent_kernel.tools.arguments import parse
from agent_kernel.tools.builtin.cells import added_cell_id
from agent_kernel.tools.builtin.declarations import CHANGES_CELLS
from agent_kernel.tools.executor import ToolExecutor

_PATH_CHARACTERS = 300
_REFUSAL_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Undo:
    """An undo, or a redo, that somebody asks for."""

    call: ToolCallView
    by: DecidedBy
    decided_by: str | None
    redo: bool

    @property
    def message(self) -> str:
        """The message to the model."""
        did, now = ("redone", "as it has left it") if self.redo else ("undone", "as it was before")
        return f"I have {did} your {self.call.tool_name} call: {_subject(self.call)} is {now}."

    async def carry_out(self, resources: Resources, row: ConversationRow, executor: ToolExecutor | None) -> None:
        """Write into the audit trail what is to be done, do it, and write that it is done. After a crash in between the
        trail tells of it, and the undo can be asked for again: an executor does none twice.

        Raises `IllegalTransition` for a call that has changed nothing, `KernelGone`, and `UndoRefused` where the policy
        denies a redo, and where the file or cell was changed since."""
        call = self.call
        if call.state != "success" and call.undo is None:
            raise IllegalTransition(f"There is nothing to undo. {standing(call.state)}")
        if call.undone != self.redo:
            said = "This change was not undone." if self.redo else "This change was undone already."
            raise UndoRefused(said, call.tool_call_id)
        if self.redo and (denial := await _denial(resources, row, call)) is not None:
            raise UndoRefused(f"{denial} The change was not made again.", call.tool_call_id)
        if executor is None:
            gone = "The kernel that ran this call is no longer there, nor is the old file."
            raise UndoRefused(gone, call.tool_call_id)
        log = resources.log
        await commit_to(log, row, self._record)
        try:
            await executor.undo(call.approval_id, redo=self.redo)
        except ToolFailed as refusal:
            said = str(refusal)
            await commit_to(log, row, lambda commit: self._record(commit, said[:_REFUSAL_CHARACTERS]))
            raise UndoRefused(said, call.tool_call_id) from None
        await commit_to(log, row, self._write)

    def _record(self, commit: Commit, refused: str | None = None) -> None:
        audit.record_undo(commit.sql, self.call, self.decided_by, by=self.by, redo=self.redo, refused=refused)

    def _write(self, commit: Commit) -> None:
        call = self.call
        tool_calls.set_undone(commit.sql, commit.number, call.tool_call_id, undone=not self.redo)
        commit.emit(
            ToolUndoneEvent(
                run_id=call.run_id, tool_call_id=call.tool_call_id, redo=self.redo, decided_by=self.decided_by
            )
        )

    def log_message(self, commit: Commit) -> None:
        """Log the message while no run is under way, for the next run's model."""
        commit.add_user_message(self.call.run_id, {"role": "user", "content": self.message})


async def _denial(resources: Resources, row: ConversationRow, call: ToolCallView) -> str | None:
    """Why the policy of the call's run, as it would be now, denies the call: rules of the site and of the folder may
    have come since. `None` where it does not. One that would ask does not: who presses Redo has been asked."""
    log, settings = resources.log, resources.settings
    await take_in_user_rules(log, settings)
    stored, saved = await log.read(lambda sql: (read_spec(sql, call.run_id), read_stored_policy(sql, row, call.run_id)))
    try:
        spec = restored(stored, prompt="")
    except ValueError:
        return UNREADABLE
    policy, _ = effective_policy(settings, await with_limits(settings, row, spec), saved)
    declaration = next(tool for tool in spec.tools if tool.name == call.tool_name)
    judged = JudgedCall(
        tool_name=call.tool_name,
        arguments=parse(call.tool_input),
        digest=call.digest,
        read_only=declaration.read_only,
        parameters=declaration.parameters,
        place=call.place,
    )
    judgement = await in_thread_if_long(call.tool_input, partial(policy.judge, judged))
    return judgement.reason if judgement.approval == "deny" else None


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
