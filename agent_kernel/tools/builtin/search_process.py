"""Runs listing and searching in a process of its own, because a model writes their patterns.

A pattern may take for ever, and Python's engine holds the interpreter's lock meanwhile: in the kernel nothing could
stop it. A process can be killed, by its deadline or by Stop. It costs a tenth of a second.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin import search

SECONDS = 30.0
"""Until it is killed. Searching ends by itself after `search.SECONDS`, unless a pattern keeps it from that."""
_FUNCTIONS: dict[str, Callable[..., str]] = {"list_files": search.list_files, "search_files": search.search_files}
# The package may be found by a path that only this process has. Last, so that nothing beside it shadows a module.
_START = "import sys; sys.path.append(sys.argv[1]); from agent_kernel.tools.builtin.search_process import main; main()"


def list_files(root: Path, path: str = ".", pattern: str | None = None, approved: Path | None = None) -> str:
    """As `search.list_files`. Raises `ToolFailed`, also where a pattern takes too long."""
    if pattern is None:
        return search.list_files(root, path, approved=approved)
    return _run("list_files", root, approved, {"path": path, "pattern": pattern})


def search_files(root: Path, query: str, approved: Path | None = None, **arguments: Any) -> str:
    """As `search.search_files`. Raises `ToolFailed`, also where a pattern takes too long."""
    return _run("search_files", root, approved, {"query": query, **arguments})


def _run(name: str, root: Path, approved: Path | None, arguments: dict[str, Any]) -> str:
    places = {"root": str(root), "approved": approved and str(approved)}
    asked = json.dumps({"name": name, **places, "arguments": arguments}).encode()
    package = Path(search.__file__).parents[3]
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, str(package)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt of the kernel's group is for the kernel, which then kills it
        )
    except (OSError, ValueError) as error:
        raise ToolFailed(f"The search could not be started: {error}. Use run_python.") from None
    with process:
        try:
            said, _ = process.communicate(asked, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            _kill(process)
            raise ToolFailed(f"Stopped after {SECONDS:.0f} s. Use a simpler pattern, or a smaller folder.") from None
        except BaseException:
            _kill(process)
            raise
    try:
        answer = json.loads(said)
    except ValueError:
        raise ToolFailed("The search ended without an answer. Use run_python.") from None
    if "failed" in answer:
        raise ToolFailed(answer["failed"])
    return str(answer["text"])


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def main() -> None:
    """What the process does: one request from its input, one answer to its output."""
    asked = json.load(sys.stdin.buffer)
    try:
        approved = asked["approved"] and Path(asked["approved"])
        answer = {"text": _FUNCTIONS[asked["name"]](Path(asked["root"]), approved=approved, **asked["arguments"])}
    except ToolFailed as failed:
        answer = {"failed": str(failed)}
    sys.stdout.buffer.write(json.dumps(answer).encode())
