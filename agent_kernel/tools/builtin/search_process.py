"""Runs listing and searching in a process of its own, because models write their patterns.

A pattern may take forever, and Python's engine holds the GIL meanwhile, so nothing in the kernel could stop it. A
process can be killed, at its deadline or by Stop. It costs a tenth of a second.
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
"""When the process is killed."""
_FUNCTIONS: dict[str, Callable[..., str]] = {"list_files": search.list_files, "search_files": search.search_files}
# The package may be on a path that only this process has. It is added last, so that it shadows no module.
_START = "import sys; sys.path.append(sys.argv[1]); from agent_kernel.tools.builtin.search_process import main; main()"


def list_files(root: Path, path: str = ".", pattern: str | None = None, approved: Path | None = None) -> str:
    """As `search.list_files`, with a time limit. Raises `ToolFailed`."""
    if pattern is None:
        return search.list_files(root, path, approved=approved)
    return _run("list_files", root, approved, {"path": path, "pattern": pattern})


def search_files(root: Path, query: str, approved: Path | None = None, **arguments: Any) -> str:
    """As `search.search_files`, with a time limit. Raises `ToolFailed`."""
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
            start_new_session=True,  # so that SIGINT reaches only the kernel, which kills this process
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
    """The process: reads one request from stdin and writes one answer to stdout."""
    asked = json.load(sys.stdin.buffer)
    try:
        approved = asked["approved"] and Path(asked["approved"])
        answer = {"text": _FUNCTIONS[asked["name"]](Path(asked["root"]), approved=approved, **asked["arguments"])}
    except ToolFailed as failed:
        answer = {"failed": str(failed)}
    sys.stdout.buffer.write(json.dumps(answer).encode())
