"""Checks the arguments that a person, or a script, puts in place of the model's."""

from typing import Any

from agent_kernel.errors import InvalidArguments
from agent_kernel.log import tool_calls
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.tool_calls.policy_check import check_policy
from agent_kernel.runtime.tool_calls.previews import preview_call
from agent_kernel.tools.arguments import digest


async def checked_edit(
    run: ActiveRun, call: ToolCallView, edited_input: dict[str, Any] | str
) -> tool_calls.Edit | None:
    """The edit of a call, or `None` where nothing was changed. Raises `InvalidArguments` where it does not fit the tool
    or is denied by policy."""
    tool_input = run.registry.validate(call.tool_name, edited_input)
    if digest(tool_input) == call.digest:
        return None
    judgement = await check_policy(run, call.tool_name, tool_input, edited=True)
    if judgement.approval == "deny":
        raise InvalidArguments(f"The changed call can't be approved. {judgement.reason}")
    shown, found = await preview_call(run, call.tool_name, tool_input, judgement)
    return tool_calls.Edit(
        tool_input=tool_input,
        digest=digest(tool_input),
        warnings=tuple(found),
        preview=shown,
        place=judgement.place,
    )
