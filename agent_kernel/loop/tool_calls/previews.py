"""What a card shows of a call, with the help of the hands where a file is concerned: only they know what it holds."""

import asyncio
import logging
from functools import partial

from agent_kernel.errors import KernelGone
from agent_kernel.log import call_notes
from agent_kernel.loop.run import ActiveRun
from agent_kernel.loop.tool_calls.reading import read
from agent_kernel.protocol.views import Preview, ToolCallView
from agent_kernel.tools.preview import CHANGES_FILES, preview

logger = logging.getLogger(__name__)
_PREVIEW_SECONDS = 3.0


async def shown_preview(run: ActiveRun, tool_name: str, tool_input: str) -> Preview | None:
    """The preview of valid arguments: of the file as it is now where the hands can tell, else of the arguments."""
    hands = run.setting.hands
    if tool_name in CHANGES_FILES and hands is not None:
        try:
            async with asyncio.timeout(_PREVIEW_SECONDS):
                text = await hands.preview(tool_name, tool_input)
        except (TimeoutError, KernelGone) as error:
            logger.debug("No diff of the file to show: %s", error)
        else:
            if text is not None:
                return Preview(kind="diff", language="diff", text=text)
    return await read(tool_input, partial(preview, tool_name, tool_input))


async def with_file_diff(run: ActiveRun, call: ToolCallView) -> ToolCallView:
    """The call with the diff of the file that it would change, which is logged before anybody is asked about it."""
    if call.tool_name not in CHANGES_FILES:
        return call
    shown = await shown_preview(run, call.tool_name, call.tool_input)
    if shown == call.preview:
        return call
    await run.commit(lambda commit: call_notes.set_preview(commit.sql, commit.number, call.tool_call_id, shown))
    return call.model_copy(update={"preview": shown})
