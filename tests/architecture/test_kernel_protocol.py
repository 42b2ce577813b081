"""The server and the kernel speak one vocabulary, which only `agent_kernel.protocol` writes down."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from agent_kernel.protocol.kernel import AnyRequest
from agent_kernel.protocol.kernel_events import KernelEvent

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "extension" / "agent_kernel_server"
EXECUTION = ROOT / "agent_kernel" / "execution"
KERNEL = ROOT / "agent_kernel" / "notebook"
REQUESTS: tuple[type[BaseModel], ...] = get_args(AnyRequest)
EVENTS: tuple[type[BaseModel], ...] = get_args(KernelEvent)


def trees(folder: Path) -> Iterator[ast.AST]:
    for path in sorted(folder.rglob("*.py")):
        yield ast.parse(path.read_text(encoding="utf-8"))


def made(folder: Path) -> set[str]:
    """The names that are called somewhere."""
    calls = (node.func for tree in trees(folder) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def matched(folder: Path) -> set[str]:
    """The classes that are told apart in a `match`."""
    cases = (node.cls for tree in trees(folder) for node in ast.walk(tree) if isinstance(node, ast.MatchClass))
    return {case.id for case in cases if isinstance(case, ast.Name)}


def names(models: tuple[type[BaseModel], ...]) -> set[str]:
    return {model.__name__ for model in models}


def test_each_request_that_the_server_sends_is_answered_in_the_kernel_and_the_other_way_round() -> None:
    assert names(REQUESTS) & (made(SERVER) | made(EXECUTION)) == names(REQUESTS)
    assert names(REQUESTS) & matched(KERNEL) == names(REQUESTS)


def test_each_event_that_a_kernel_sends_is_handled_at_the_server_and_the_other_way_round() -> None:
    assert names(EVENTS) & made(KERNEL) == names(EVENTS)
    assert names(EVENTS) & matched(SERVER) == names(EVENTS)
