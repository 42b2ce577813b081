"""What a conversation that waits for a person keeps in memory: there may be thousands of them, for days. And what the
garbage collector looks at, which holds up all of them."""

import gc
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from agent_kernel.garbage import THRESHOLDS, settle
from agent_kernel.tools.declaration import ToolDeclaration

PROBE = ToolDeclaration("probe", "Probe.", {"type": "object", "properties": {}}, approval="ask")
HISTORIES = 32
"""So many conversations keep their history in memory, however many wait: they are not counted."""


@pytest.fixture
def settled() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    settle()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="there is no middle generation")
@pytest.mark.usefixtures("settled")
def test_the_collector_looks_at_few_objects_in_each_of_its_frequent_passes() -> None:
    passes: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            generation = info["generation"]
            passes[generation].append(sum(len(gc.get_objects(younger)) for younger in range(generation + 1)))

    gc.callbacks.append(note)
    try:
        kept: list[list[int]] = [[number] for number in range(40_000)]
    finally:
        gc.callbacks.remove(note)
    new, every, _ = THRESHOLDS
    assert len(passes[1]) >= len(kept) // (new * (every + 2)) - 1
    assert max(passes[0] + passes[1]) <= 1.1 * new * (every + 2)  # with Python's own numbers it is three times as many
    assert len(passes[2]) <= 1
