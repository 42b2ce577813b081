"""What an agent outside is told of its call: the result in words and pictures, or a handle and what to do with it."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mcp.types import ImageContent

from agent_kernel.models.redaction import Secrets
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.views import RunView, ToolCallView
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.tools import outcome_texts
from agent_kernel_server.mcp_server.notebooks import Place

PAGE_BYTES = 25_000
"""The most text of one answer, in UTF-8."""
_FOOTER_BYTES = 300
MOST_READ = 5_000_000
"""Of a long output, in characters."""


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a call."""

    pages: list[str]
    pictures: list[ImageContent]
    failed: bool

    def page(self, number: int, more: str) -> str:
        """A page of the text, from 1 on. `more` says how to get another, with its number in place of `{}`."""
        if not 1 <= number <= len(self.pages):
            return f"There is no page {number}: the result has {len(self.pages)}."
        text = self.pages[number - 1]
        if len(self.pages) == 1:
            return text
        next_one = f" Next: {more.format(number + 1)}" if number < len(self.pages) else ""
        return f"{text}\n[Page {number} of {len(self.pages)}.{next_one}]"


async def read_result(runtime: Runtime, run: RunView, secrets: Secrets) -> Result:
    """The result of a call whose run has ended."""
    found = await runtime.calls_with_pictures(run)
    if not found:
        why = run.error.message if run.error is not None else "Its run was stopped before it was judged."
        return Result([f"Error: this call did not run. {why}"], [], failed=True)
    call, refs, data = found[0]
    text = secrets.clean(await _whole_text(call))
    known = [ref for ref in refs if ref["digest"] in data]
    pictures = [ImageContent(data=data[ref["digest"]], mime_type=ref["media_type"]) for ref in known]
    return Result(_pages(text), pictures, failed=call.state != "success")


async def _whole_text(call: ToolCallView) -> str:
    """The result; of one that was shortened, what it was shortened from."""
    if not call.truncated or call.output_file is None:
        return call.result or ""
    try:
        text = await in_own_thread(partial(_read, Path(call.output_file)))
    except OSError:  # it was cleared away
        return call.result or ""
    return outcome_texts.ended(call, call.state, text)


def _read(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(MOST_READ)


def _pages(text: str) -> list[str]:
    """The text in pieces, which end with a line where one does in the last half."""
    room = PAGE_BYTES - _FOOTER_BYTES
    rest, pages = text.encode(errors="replace"), []
    while len(rest) > room:
        line = rest.rfind(b"\n", room // 2, room)
        end = line + 1 if line >= 0 else room
        while line < 0 and rest[end] & 0b1100_0000 == 0b1000_0000:  # in the middle of a character
            end -= 1
        pages.append(rest[:end].decode())
        rest = rest[end:]
    return [*pages, rest.decode()]


def open_text(run: RunView, calls: list[ToolCallView], place: Place, *, repeated: bool) -> str:
    """What a client is told of a call that has not ended."""
    call = calls[0] if calls else None
    again = "You have sent this call before; it goes on, and was not started again. " if repeated else ""
    if call is not None and call.state == "executing":
        state = f"The user's side has approved {call.tool_name}, and it runs in {place.name} now."
    elif call is not None and call.state in ("approved", "proposed"):
        state = f"{call.tool_name} waits for its turn in {place.name}."
    elif run.paused is not None:
        state = f"The budget for calls in {place.name} is used up: the user has to add to it."
    else:
        state = f"This call waits for the user's decision in {place.name}. Nothing ran yet."
    return (
        f"{again}{state} This is no error.\nhandle: {run.run_id}\n"
        f'To get the result, call wait_for_call with {{"handle": "{run.run_id}"}}; repeat that for as long as it says '
        "so. Do not send the call again. Tell the user that it waits for them, if they have not noticed."
    )
