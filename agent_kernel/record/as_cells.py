"""Turns a run into notebook cells that repeat it without an agent."""

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath
from typing import Any, Literal

from agent_kernel.protocol.views import MessageView, RunView, ToolCallView
from agent_kernel.record import words
from agent_kernel.record.markdown import code_span, escape_markdown, safe_markdown
from agent_kernel.record.story import arguments_of
from agent_kernel.tools.review.hidden import reveal
from agent_kernel.tools.truncation import TextLimits, truncate

_SHELL_DONE = "Exit code: 0"
_CELL_MAGIC = re.compile(r"%%(\w+)(.*)\n([\s\S]*)")
_COMMENT = TextLimits(characters=5_000, lines=100)
_TITLE = 80
_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
}


@dataclass(frozen=True, slots=True)
class Cell:
    kind: Literal["code", "markdown"]
    source: str
    comment: bool = False
    """Whether it is a code cell that only has comments."""


def code_cells(messages: Sequence[MessageView], calls: Sequence[ToolCallView]) -> list[Cell]:
    """The code of the successful calls, as it ran, in the order in which it ran.

    A call that a cell can't repeat becomes a comment. Calls that failed, were denied, never ran or only read are
    omitted.
    """
    cells = (_cell(item) for item in _in_order(messages, calls) if isinstance(item, ToolCallView))
    return _merged(cell for cell in cells if cell is not None)


def all_cells(run: RunView, messages: Sequence[MessageView], calls: Sequence[ToolCallView]) -> list[Cell]:
    """The whole run: the prompt, the model's texts and the answer as Markdown cells, the code of `code_cells`, and the
    calls that are omitted there as comments."""
    cells: list[Cell] = []
    for item in _in_order(messages, calls):
        if isinstance(item, ToolCallView):
            cells.append(_cell(item) or _left_out(item))
        elif item and item != f"> {_title(run)}":
            cells.append(Cell("markdown", item))
    return [Cell("markdown", _heading(run)), *_merged(cells)]


def as_one(cells: Sequence[Cell]) -> str:
    """Several code cells joined by `# %%` lines, at which editors can split them again."""
    if len(cells) == 1:
        return cells[0].source
    return "\n\n".join(f"# %%\n{_without_cell_magic(cell.source)}" for cell in cells)


def as_node(cell: Cell) -> dict[str, Any]:
    """A cell in nbformat 4.5."""
    node: dict[str, Any] = {"cell_type": cell.kind, "id": uuid.uuid4().hex[:8], "metadata": {}, "source": cell.source}
    return node | {"execution_count": None, "outputs": []} if cell.kind == "code" else node


def as_document(cells: Iterable[Cell]) -> dict[str, Any]:
    """A notebook in nbformat 4.5."""
    return {"cells": [as_node(cell) for cell in cells], "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}


def _in_order(messages: Sequence[MessageView], calls: Sequence[ToolCallView]) -> Iterator[str | ToolCallView]:
    """Texts as Markdown, and calls; those of one step in the order in which they ran."""
    open_calls = {call.tool_call_id: call for call in calls}
    for message in messages:
        if message.role == "assistant":
            yield safe_markdown(message.content)
        elif message.role == "user":
            yield "\n".join(f"> {line}".rstrip() for line in safe_markdown(message.content).split("\n"))
        step = [open_calls.pop(name) for name in message.tool_calls if name in open_calls]
        yield from sorted(step, key=_began)
    yield from open_calls.values()


def _began(call: ToolCallView) -> str:
    return call.started_at or call.ended_at or call.created_at


def _cell(call: ToolCallView) -> Cell | None:
    """The cell that repeats a call; `None` if there is nothing to repeat."""
    arguments = arguments_of(call)
    if call.state != "success" or arguments is None or call.tool_name == "ask_user":
        return None
    match call.tool_name:
        case "run_python":
            return Cell("code", str(arguments.get("code", "")))
        case "run_shell":
            # A failed command did not stop the run, so it must not stop the notebook.
            last = (call.result or "").rstrip().rpartition("\n")[2]
            option = "" if last == _SHELL_DONE else " --no-raise-error"
            return Cell("code", f"%%bash{option}\n{arguments.get('command', '')}")
        case "write_file" if not call.undone:
            return Cell("code", _writing(str(arguments.get("path", "")), str(arguments.get("content", ""))))
        case _ if call.read_only or call.undone:
            return None
        case "edit_file":
            return _comment(f"The agent changed {arguments.get('path')}:\n{_detail(call)}")
        case _:
            return _comment(f"The agent called a tool of the notebook's own:\n{_called(call, arguments)}")


def _left_out(call: ToolCallView) -> Cell:
    arguments = arguments_of(call)
    shown = _called(call, arguments)
    if call.undone:
        return _comment(f"Left out, because it was undone:\n{shown}")
    if call.state == "success":
        answer = f" -> {call.result}" if call.tool_name == "ask_user" else ""
        return _comment(f"The agent looked: {shown}{answer}" if call.read_only else f"The agent asked: {shown}{answer}")
    reason = f" {call.reason}" if call.reason else ""
    return _comment(f"Left out: {words.STATES[call.state].lower()}.{reason}\n{_detail(call) or shown}")


def _detail(call: ToolCallView) -> str:
    """A call's code, command or diff."""
    arguments = arguments_of(call) or {}
    code = arguments.get("code") if call.tool_name == "run_python" else arguments.get("command")
    return str(code) if code else call.preview.text if call.preview is not None else ""


def _called(call: ToolCallView, arguments: dict[str, Any] | None) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in (arguments or {}).items())
    return f"{call.tool_name}({given if arguments is not None else call.tool_input})"


def _comment(text: str) -> Cell:
    lines = truncate(reveal(text), _COMMENT).text.splitlines()
    return Cell("code", "\n".join(f"# {line}".rstrip() for line in lines), comment=True)


def _writing(path: str, content: str) -> str:
    folder = str(PurePath(path).parent)
    lines = ["from pathlib import Path", ""]
    if folder != ".":
        lines.append(f"Path({folder!r}).mkdir(parents=True, exist_ok=True)")
    return "\n".join([*lines, f"Path({path!r}).write_text({_literal(content)}, encoding='utf-8')"])


def _literal(text: str) -> str:
    """A Python literal of a text, with line ends kept as such."""
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if "\n" not in text or "\r" in text or reveal(text) != text or escaped.endswith('"'):
        return repr(text)
    return f'"""\\\n{escaped}"""'


def _merged(cells: Iterable[Cell]) -> list[Cell]:
    """Join consecutive comment cells."""
    merged: list[Cell] = []
    for comment, group in groupby(cells, key=lambda cell: cell.comment):
        if comment:
            merged.append(Cell("code", "\n\n".join(cell.source for cell in group), comment=True))
        else:
            merged.extend(group)
    return merged


def _title(run: RunView) -> str:
    line = " ".join(run.prompt.split()).lstrip("#>-*+ ")
    # Cut before escaping, so that no escape is cut in half.
    line = line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"
    title = safe_markdown(line)
    return title if "\n" not in title else escape_markdown(line)


def _heading(run: RunView) -> str:
    model, run_id = escape_markdown(run.model), code_span(run.run_id)
    parts = [f"# {_title(run)}", f"What the agent ({model}) did in the run {run_id}, without the agent."]
    if run.ended_at is None:
        parts.append("The run had not ended when this was written.")
    return "\n\n".join(parts)


def _without_cell_magic(source: str) -> str:
    """A cell magic as a call, because a magic must begin its cell."""
    found = _CELL_MAGIC.fullmatch(source)
    if found is None:
        return source
    name, line, body = found.groups()
    return f"get_ipython().run_cell_magic({name!r}, {line.strip()!r}, {_literal(body)})"
