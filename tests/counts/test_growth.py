"""A turn of a long conversation costs what one of a short conversation costs."""

import sqlite3
from itertools import count
from pathlib import Path

from agent_kernel.testing import ScriptedModel, call, say
from agent_kernel.tools.declaration import ToolDeclaration
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stage, stage

PROBE = ToolDeclaration("probe", "Probe.", {"type": "object", "properties": {}}, approval="allow")
TEXT = "".join(f"{number:04d} " for number in range(10))


async def size_after(opened: Stage, runs: int) -> int:
    """The bytes of the log's pages after so many more runs."""
    for _ in range(runs):
        await (await opened.start(tools=(PROBE,))).wait()

    def pages(sql: sqlite3.Connection) -> int:
        (number,) = sql.execute("PRAGMA page_count").fetchone()
        (size,) = sql.execute("PRAGMA page_size").fetchone()
        return int(number * size)

    return await opened.log.read(pages)


async def test_a_turn_is_a_few_kilobytes_and_no_more_late_than_early(tmp_path: Path) -> None:
    results = count(1)
    executor = FunctionExecutor(act=lambda call, emit: f"{next(results)}")
    opened = await stage(ScriptedModel([call("probe"), say(TEXT)], repeat=True), tmp_path / "log.sqlite", executor)
    opened.runtime.listen_to_audit(lambda _: None)  # as a server does
    sizes = [await size_after(opened, runs) for runs in (1, 30, 30)]
    await opened.close()
    early, late = (sizes[1] - sizes[0]) / 30, (sizes[2] - sizes[1]) / 30
    assert late <= 1.2 * early
    assert late <= 6_000, "900 are two audit entries in plain text, some 2,000 the events"
