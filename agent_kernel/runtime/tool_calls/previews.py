"""Previews for cards. For a change of a file or a cell the executor makes it, because only it can read them."""

import asyncio
import json
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from agent_kernel.approvals.policy import Judgement
from agent_kernel.approvals.rules import Rule
from agent_kernel.errors import InvalidArguments, KernelGone
from agent_kernel.log import tool_calls
from agent_kernel.log.runs import declared_as
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.calls import Place
from agent_kernel.protocol.file_cards import FileCard
from agent_kernel.protocol.views import Preview, ToolCallView, Warning
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.tasks import in_thread_if_long
from agent_kernel.runtime.tool_calls.policy_check import changes_cells, check_policy
from agent_kernel.tools.arguments import digest, parse
from agent_kernel.tools.builtin.run_by_themselves import why_it_runs
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.review.file_changes import RUNS_BY_ITSELF, runs_by_itself
from agent_kernel.tools.review.preview import CHANGES_FILES, preview, warnings
from agent_kernel.tools.server_tools import DEFINITION, definition_digest, difference
from agent_kernel.tools.walls.inside import is_inside, meaning_of

logger = logging.getLogger(__name__)
_PREVIEW_SECONDS = 3.0
_CELL_SECONDS = 30.0
NOT_REACHED = "The notebook could not be read. Nothing was changed."
NOT_READ = "What the file holds now could not be read."

PreviewAndWarnings = tuple[Preview | None, Sequence[Warning]]


async def preview_call(run: ActiveRun, tool_name: str, tool_input: str, judged: Judgement) -> PreviewAndWarnings:
    """The preview of valid arguments and its warnings, for the file or the walls by which the call was judged.

    Raises `InvalidArguments` for a change of a file that is refused without asking.
    """
    place = judged.place
    found = await in_thread_if_long(tool_input, partial(warnings, tool_name, tool_input))
    if run.registry.declaration(tool_name).origin is not None:
        return await server_tool_card(run, tool_name, tool_input, found)
    if changes_cells(run, tool_name):
        return await _cell_card(run, tool_name, tool_input, found)
    card = await _file_card(run, tool_name, tool_input, place)
    if card is not None and card.refusal:
        raise InvalidArguments(card.refusal)
    if card is not None and card.diff:
        shown = Preview(kind="diff", language="diff", text=card.diff, left_out=card.left_out)
    else:
        plain = await in_thread_if_long(tool_input, partial(preview, tool_name, tool_input))
        if plain is not None and judged.walls:
            base = "" if is_inside(judged.walls) is None else judged.walls
            facts = [meaning_of(judged.walls), f"walls: {judged.walls}."]
            return plain.model_copy(update={"facts": facts, "base": base}), found
        if plain is None or tool_name not in CHANGES_FILES:
            return plain, found
        shown = plain
    facts = [NOT_READ] if card is None else card.facts
    base = "" if card is None else card.base
    found = [*found, *(card.warnings if card else ())]
    if place is not None and all(warning.title != RUNS_BY_ITSELF for warning in found):
        found += runs_by_itself(await in_own_thread(partial(why_it_runs, place)))  # by this server's Python
    return shown.model_copy(update={"facts": facts, "base": base}), found


async def with_present_card(run: ActiveRun, call: ToolCallView, judged: Judgement) -> ToolCallView:
    """The call with a preview of its change to the file or the cell as it is now, with the walls around its command, or
    with the definition of a server's tool, which is logged before a person is asked.

    Raises `InvalidArguments` for a change that is refused without asking.
    """
    is_server_tool = run.registry.declaration(call.tool_name).origin is not None
    of_file_or_cell = call.tool_name in CHANGES_FILES or changes_cells(run, call.tool_name)
    if not (of_file_or_cell or judged.walls or is_server_tool):
        return call
    shown, found = await preview_call(run, call.tool_name, call.tool_input, judged)
    if shown == call.preview and list(found) == call.warnings:
        return call
    number = run.conversation.number
    await run.commit(lambda commit: tool_calls.set_card(commit.sql, number, call.tool_call_id, shown, found))
    return call.model_copy(update={"preview": shown, "warnings": list(found)})


async def _cell_card(run: ActiveRun, tool_name: str, tool_input: str, found: Sequence[Warning]) -> PreviewAndWarnings:
    """Raises `InvalidArguments` where the model has not seen the cell as it is. It is told then."""
    seen = run.seen_cells.digest(parse(tool_input).get("cell_id"))
    if run.executor is None:
        raise InvalidArguments(NOT_REACHED)
    try:
        async with asyncio.timeout(_CELL_SECONDS):
            card = await run.executor.cell_card(tool_name, tool_input, seen)
    except (TimeoutError, KernelGone) as error:
        logger.debug("The notebook can't be read: %s", error)
        raise InvalidArguments(NOT_REACHED) from None
    if card.refusal:
        run.seen_cells.tell(card.cells)
        raise InvalidArguments(card.refusal)
    return card.preview, [*found, *card.warnings]


async def _file_card(run: ActiveRun, tool_name: str, tool_input: str, place: Place | None) -> FileCard | None:
    executor = run.executor
    if tool_name not in CHANGES_FILES or executor is None:
        return None
    try:
        async with asyncio.timeout(_PREVIEW_SECONDS):
            card = await executor.preview(tool_name, tool_input, place)
    except (TimeoutError, KernelGone) as error:
        logger.debug("The file can't be previewed: %s", error)
        return None
    return card and card.model_copy(update={"diff": run.secrets.clean(card.diff)})


CHANGED = "Changed since you allowed it:"
DESTRUCTIVE = "May destroy something, says its server:"
_NOT_KNOWN = "what it was then is not in the log any more"


async def server_tool_card(
    run: ActiveRun, tool_name: str, tool_input: str, found: list[Warning]
) -> tuple[Preview, list[Warning]]:
    """The preview and the warnings."""
    tool = run.registry.declaration(tool_name)
    assert tool.origin is not None
    hints = [Warning(title=DESTRUCTIVE, detail=tool.origin.server)] if "destructive" in tool.origin.hints else []
    shown = Preview(
        kind="code",
        language="json",
        text=json.dumps(parse(tool_input), indent=2, ensure_ascii=False),
        base=f"{DEFINITION}{definition_digest(tool)}",
    )
    return shown, [*await _changes(run, tool), *hints, *found]


async def _changes(run: ActiveRun, tool: ToolDeclaration) -> list[Warning]:
    """The difference to the definition that a person allowed, if that was another one."""
    rules = [Rule.parse(rule.text) for rule in run.view.policy.rules]
    allowed = [rule.definition for rule in rules if rule.tool == tool.name and rule.definition]
    if not allowed or definition_digest(tool) in allowed:
        return []
    known = await run.log.read(lambda sql: declared_as(sql, tool.name))
    before = [one for one in known if definition_digest(one) == allowed[-1]]
    return [Warning(title=CHANGED, detail=difference(before[0], tool) if before else _NOT_KNOWN)]


async def checked_edit(
    run: ActiveRun, call: ToolCallView, edited_input: dict[str, Any] | str
) -> tool_calls.Edit | None:
    """The edit of a call, or `None` where nothing was changed. Raises `InvalidArguments` where it does not fit the tool
    or is denied by policy."""
    tool_input = run.registry.validate(call.tool_name, edited_input)
    if digest(tool_input) == call.digest:
        return None
    judgement = await check_policy(run, call.tool_name, tool_input)
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
