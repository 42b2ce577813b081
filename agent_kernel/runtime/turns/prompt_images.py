"""The pictures of a prompt: those that were sent with it, and those that it names in Markdown, `![](figure.png)`, which
are read through the executor."""

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

from agent_kernel.errors import KernelGone, ToolFailed
from agent_kernel.models.images import NoPicture
from agent_kernel.protocol.views import ImageRefs
from agent_kernel.runtime.tool_calls.shown_images import MOST_IMAGES, NO_PICTURES, Prepared, prepare_one
from agent_kernel.tools.builtin.prompt_pictures import attached_name
from agent_kernel.tools.executor import ToolExecutor

if TYPE_CHECKING:
    from agent_kernel.runtime.state.active_run import ActiveRun

READ_SECONDS = 10.0
_MARK = "!["
_MOST_CHARACTERS = 50_000
_MOST_BRACKETS = 2_000
"""The most brackets in a prompt that is parsed: the parser takes quadratic time for them."""
_SHOWN = 100


async def prompt_pictures(run: "ActiveRun", prompt: str, sent: ImageRefs) -> Prepared:
    """The pictures of a prompt for the model; those that were `sent` with it are in the log. A notice names others that
    can't be read; the run continues without them."""
    if _MARK not in prompt:
        return Prepared(list(sent)) if sent else NO_PICTURES
    names = await asyncio.to_thread(picture_names, prompt)
    prepared = Prepared(list(sent))
    for name in names[:MOST_IMAGES]:
        try:
            raw = await _read(run.executor, name)
            one = await asyncio.to_thread(prepare_one, raw, sent=run.sends_images)
        except (KernelGone, NoPicture, TimeoutError, ToolFailed) as reason:
            said = "the kernel did not send it in time" if isinstance(reason, TimeoutError) else str(reason)
            run.notify(f"The picture {_shown(name)} is not sent to the model: {said}.")
        else:
            prepared.refs.extend(one.refs)
            prepared.data.update(one.data)
    for name in names[MOST_IMAGES:]:
        run.notify(f"The picture {_shown(name)} is not sent to the model: a prompt may have {MOST_IMAGES}.")
    return prepared


def picture_names(prompt: str) -> list[str]:
    """The addresses of the pictures in a Markdown text, each once, in order. Slow: call it in a thread."""
    if len(prompt) > _MOST_CHARACTERS or prompt.count("[") > _MOST_BRACKETS:
        return []
    tokens = MarkdownIt("commonmark", {"html": False}).parse(prompt)
    inline = [child for token in tokens for child in token.children or ()]
    names = (str(token.attrGet("src") or "") for token in inline if token.type == "image")
    return list(dict.fromkeys(unquote(name) for name in names))


async def _read(executor: ToolExecutor | None, name: str) -> bytes:
    """Raises `ToolFailed`, `KernelGone`, `TimeoutError`."""
    if attached_name(name) is None and _is_elsewhere(name):
        raise ToolFailed("only files in the notebook's folder are read")
    if executor is None:
        raise ToolFailed("this conversation has no kernel to read it")
    async with asyncio.timeout(READ_SECONDS):
        return await executor.read_picture(name)


def _is_elsewhere(name: str) -> bool:
    try:
        scheme = urlsplit(name).scheme
    except ValueError:  # a server's address that is none
        return True
    return len(scheme) > 1 or name.startswith("//")  # one letter is a drive


def _shown(name: str) -> str:
    short = name if len(name) <= _SHOWN else f"{name[: _SHOWN - 3]}..."
    return repr(short)
