"""The file tools. They run in the kernel's process; `root` is the notebook's folder. They return text for the model."""

import difflib
from pathlib import Path

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.paths import TextFile, existing, is_binary, read_text, resolve, write_text

_MATCHES_SHOWN = 10
_NEAR_LINES = 5_000
_NEAR_SHOWN = 2_000


def read_file(root: Path, path: str, offset: int = 1, limit: int = 1000) -> str:
    """Lines of a text file, below a line that says which they are. Raises `ToolFailed`."""
    content = read_text(existing(path, root), path)
    lines = content.text.split("\n")
    if lines[-1] == "":
        lines.pop()
    note = "" if content.encoding == "utf-8" else f", {content.encoding}"
    if not lines:
        return f"{path}: an empty file{note}"
    if offset > len(lines):
        raise ToolFailed(f"{path!r} has {len(lines)} lines; line {offset} is past its end.")
    last = min(len(lines), offset - 1 + limit)
    more = f". Read on with offset={last + 1}" if last < len(lines) else ""
    body = "\n".join(lines[offset - 1 : last])
    return f"{path}: lines {offset} to {last} of {len(lines)}{note}{more}\n{body}"


def write_file(root: Path, path: str, content: str) -> str:
    """Create a file or replace its content; its encoding, line ends and permissions stay. Raises `ToolFailed`."""
    target = resolve(path, root)
    existed = target.exists()
    before = _before(target, path) if existed else None
    if before is None:
        write_text(target, path, TextFile(content, "utf-8", "\n"))
        return f"{'Replaced' if existed else 'Created'} {path}: {_count(len(_lines(content)))}."
    if before.newline == "\r\n":
        content = content.replace("\r\n", "\n")
    # Text that the file's old encoding can't hold makes it UTF-8.
    encoding = before.encoding if before.encoding != "latin-1" else "utf-8"
    write_text(target, path, TextFile(content, encoding, before.newline))
    return f"Replaced {path}: {_changes(before.text, content)}."


def edit_file(root: Path, path: str, old_text: str, new_text: str, replace_all: bool = False) -> str:
    """Replace exact text, which must occur once unless `replace_all`. Raises `ToolFailed` with the nearest text."""
    target = existing(path, root)
    before = read_text(target, path)
    if before.newline == "\r\n":
        old_text, new_text = old_text.replace("\r\n", "\n"), new_text.replace("\r\n", "\n")
    if not old_text:
        raise ToolFailed("old_text is empty. Give the text to replace, or use write_file.")
    if old_text == new_text:
        raise ToolFailed("old_text and new_text are the same; nothing would change.")
    found = before.text.count(old_text)
    if found == 0:
        raise ToolFailed(f"old_text is not in {path!r}. {_nearest(before.text, old_text)}")
    if found > 1 and not replace_all:
        lines = ", ".join(map(str, _lines_of(before.text, old_text)))
        raise ToolFailed(
            f"old_text occurs {found} times in {path!r} (lines {lines}). Take in more lines around it, or set "
            "replace_all."
        )
    after = before.text.replace(old_text, new_text)
    write_text(target, path, TextFile(after, before.encoding, before.newline))
    places = f" in {found} places" if found > 1 else ""
    return f"Edited {path}{places}: {_changes(before.text, after)}."


def _before(target: Path, path: str) -> TextFile | None:
    """The text that a file holds; `None` for a binary one."""
    if not target.is_file():
        raise ToolFailed(f"{path!r} is not a regular file.")
    try:
        binary = is_binary(target)
    except OSError as error:
        raise ToolFailed(f"{path!r} can't be read: {error.strerror}.") from None
    return None if binary else read_text(target, path)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _count(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines:,} lines"


def _changes(before: str, after: str) -> str:
    """`+3 -2 lines`: what lies between the common start and end of the two texts. Linear."""
    old, new = _lines(before), _lines(after)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return f"+{len(new) - start - end} -{len(old) - start - end} lines"


def _lines_of(text: str, part: str) -> list[int]:
    numbers: list[int] = []
    position = text.find(part)
    line = 1
    seen = 0
    while position >= 0 and len(numbers) < _MATCHES_SHOWN:
        line += text.count("\n", seen, position)
        seen = position
        numbers.append(line)
        position = text.find(part, position + len(part))
    return numbers


def _nearest(text: str, wanted: str) -> str:
    """The piece of the file that is most like the wanted text, or advice where there is none."""
    advice = "Read the file again; spaces and line ends must be the same."
    lines, looked_for = _lines(text), _lines(wanted)
    if len(lines) > _NEAR_LINES or len(looked_for) > 200:
        return advice
    stripped = [line.strip() for line in lines]
    anchor, offset = _anchor(stripped, [line.strip() for line in looked_for])
    if anchor is None:
        return advice
    first = max(0, anchor - offset)
    piece = lines[first : first + len(looked_for)]
    shown = "\n".join(piece)[:_NEAR_SHOWN]
    return f"The nearest text is at lines {first + 1} to {first + len(piece)}:\n{shown}"


def _anchor(lines: list[str], wanted: list[str]) -> tuple[int | None, int]:
    """The index of a file line like one of the wanted lines, and that one's index. Longer lines say more."""
    by_length = sorted(range(len(wanted)), key=lambda index: -len(wanted[index]))
    for index in by_length:
        if wanted[index] and wanted[index] in lines:
            return lines.index(wanted[index]), index
    for index in by_length[:1]:
        close = difflib.get_close_matches(wanted[index][:300], [line[:300] for line in lines], n=1, cutoff=0.6)
        if close:
            return next(i for i, line in enumerate(lines) if line[:300] == close[0]), index
    return None, 0
