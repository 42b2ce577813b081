"""The file tools, which run in the kernel. `root` is the notebook's folder; results are text for the model."""

from pathlib import Path

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin.changes import FileChange, split_lines
from agent_kernel.tools.builtin.paths import TextFile, existing, read_text, write_text


def read_file(root: Path, path: str, offset: int = 1, limit: int = 1000, approved: Path | None = None) -> str:
    """Read lines of a text file, under a heading that says which. Raises `ToolFailed`."""
    content = read_text(existing(path, root, approved), path)
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


def carry_out(change: FileChange, path: str) -> str:
    """Make the change. Raises `ToolFailed`."""
    write_text(change.target, path, change.after)
    if change.edit is not None:
        places = f" in {change.edit.places} places" if change.edit.places > 1 else ""
        return f"Edited {path}{places}: {_changes(change.before, change.after)}."
    if change.before is None:
        return f"{'Replaced' if change.existed else 'Created'} {path}: {_count(len(split_lines(change.after.text)))}."
    return f"Replaced {path}: {_changes(change.before, change.after)}."


def _count(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines:,} lines"


def _changes(before: TextFile | None, after: TextFile) -> str:
    """A summary such as `+3 -2 lines`, of what lies between the common start and end of the texts. Linear."""
    old, new = split_lines(before.text if before else ""), split_lines(after.text)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return f"+{len(new) - start - end} -{len(old) - start - end} lines"
