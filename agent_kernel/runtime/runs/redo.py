"""Judges a change that is to be made again: rules of the site and of the folder may have come since its call ran."""

from functools import partial

from agent_kernel.approvals.rules import JudgedCall
from agent_kernel.log.runs import ConversationRow, read_spec
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.runs.lifecycle import with_limits
from agent_kernel.runtime.runs.recovery import UNREADABLE
from agent_kernel.runtime.runs.specs import restored
from agent_kernel.runtime.state.active_run import Resources
from agent_kernel.runtime.tasks import read
from agent_kernel.runtime.tool_calls.effective_policy import effective_policy, read_stored_policy, take_in_user_rules
from agent_kernel.tools.arguments import parse


async def denial(resources: Resources, row: ConversationRow, call: ToolCallView) -> str | None:
    """Why the policy of the call's run, as it would be now, denies the call; `None` where it does not. One that would
    ask does not: who presses Redo has been asked."""
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
    judgement = await read(call.tool_input, partial(policy.judge, judged))
    return judgement.reason if judgement.approval == "deny" else None
