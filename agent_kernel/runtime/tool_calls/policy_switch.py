"""Switches the policy of a conversation while a run is under way.

A stricter policy applies before its commit, a looser one after it, so that no call starts under a policy that the log
does not have. Waiting calls that the new policy denies are denied; those that it allows are approved only where the
switch says so.
"""

from agent_kernel.approvals.policy import Policy, exceeds
from agent_kernel.errors import InvalidArguments
from agent_kernel.log import audit, runs, tool_calls
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.store import Log
from agent_kernel.protocol.events import PolicyEvent
from agent_kernel.protocol.views import PolicySwitchView, RunView
from agent_kernel.protocol.vocabulary import PolicyMode
from agent_kernel.runtime.settings import RuntimeSettings
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit, commit_to
from agent_kernel.runtime.tool_calls.always_allow import check_waiting_calls


def refuse_above(settings: RuntimeSettings, mode: PolicyMode, run: ActiveRun | None = None) -> None:
    """Refuse a mode above the cap of the site, or of the folder of the run that is under way. Raises
    `InvalidArguments`."""
    if exceeds(mode, settings.policy_cap):
        most = f"This site allows {settings.policy_cap}"
        raise InvalidArguments(f"{most} at most, not {mode}. Nothing was changed.", field="mode")
    folder = run.view.policy.folder_cap if run is not None else None
    if run is not None and exceeds(mode, folder):
        files = ", ".join(run.spec.limits.files[:3])
        raise InvalidArguments(f"{files} allows {folder} at most, not {mode}. Nothing was changed.", field="mode")


async def switch(
    log: Log,
    settings: RuntimeSettings,
    row: ConversationRow,
    run: ActiveRun | None,
    mode: PolicyMode,
    decided_by: str | None,
    *,
    decide: bool = False,
) -> PolicySwitchView:
    """`run` is the one that is under way, if any. A switch to the mode in force changes nothing. With
    `decide`, the waiting calls that the mode allows are approved."""
    if run is None:
        before = await _mode_in_force(log, settings, row)
        switched = PolicyEvent(before=before, mode=mode, decided_by=decided_by)
        await commit_to(log, row, lambda commit: _note(commit, row, switched))
    else:
        async with run.policy_lock:
            before = run.policy.default
            if before != mode or decide:
                event = PolicyEvent(
                    run_id=run.run_id, before=before, mode=mode, decided_by=decided_by, decide_waiting=decide
                )
                await _put_in_force(run, event)
                await check_waiting_calls(run, decide=decide)
    run_id = run.run_id if run is not None else None
    waiting = await log.read(lambda sql: tool_calls.list_calls(sql, conversation=row.number, state="awaiting_approval"))
    return PolicySwitchView(
        conversation_id=row.conversation_id, run_id=run_id, before=before, mode=mode, waiting=len(waiting)
    )


async def _mode_in_force(log: Log, settings: RuntimeSettings, row: ConversationRow) -> PolicyMode:
    chosen = await log.read(lambda sql: runs.chosen_policy(sql, row.number))
    return Policy(default=chosen or "ask").capped(settings.policy_cap).default


async def _put_in_force(run: ActiveRun, event: PolicyEvent) -> None:
    policy = run.policy
    switched = Policy(policy.rules, event.mode)
    if exceeds(event.before, event.mode):
        run.policy = switched

    def work(commit: Commit, view: RunView) -> None:
        _note(commit, run.conversation, event)
        commit.save_run(view)

    notices = [*run.view.notices, run.notice(_said(event))]
    try:
        shown = run.view.policy.model_copy(update={"mode": event.mode})
        await run.commit_view(work, policy=shown, notices=notices)
    except BaseException:
        run.policy = policy
        raise
    run.policy = switched


def _note(commit: Commit, row: ConversationRow, switched: PolicyEvent) -> None:
    """Write the switch: for the conversation, the audit trail and the clients."""
    runs.choose_policy(commit.sql, commit.number, switched.mode)
    if switched.before != switched.mode or switched.decide_waiting:
        audit.record_policy(commit.sql, row.conversation_id, switched)
        commit.emit(switched)


def _said(switched: PolicyEvent) -> str:
    whom = f" by {switched.decided_by}" if switched.decided_by is not None else ""
    waiting = " It decided the calls that waited." if switched.decide_waiting else ""
    return f"The policy was switched{whom}: from {switched.before} to {switched.mode}.{waiting}"
