"""The whole load, some minutes: `python -m tests.load` prints what it took and what the server held."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.load.measures import Measure, loaded_server, many_approvals, many_calls, many_faces, table


async def measure(directory: Path) -> list[Measure]:
    measures = []
    async with loaded_server(directory / "asks") as loaded:
        measures += [await many_approvals(loaded, 200), await many_approvals(loaded, 200)]
        measures += [await many_faces(loaded, 1000), await many_faces(loaded, 1000)]
    async with loaded_server(directory / "allows", allows=True) as loaded:
        measures += [await many_calls(loaded, 10_000, 1)]
    return measures


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="agent-kernel-load-", ignore_cleanup_errors=True) as directory:
        sys.stdout.write(table(asyncio.run(measure(Path(directory)))) + "\n")


if __name__ == "__main__":
    main()
