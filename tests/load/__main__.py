"""The whole load, some minutes: `python -m tests.load` prints what it took and what the server held.

It ends with 1 where the server did not let go of something, or holds more memory after the same load a second time.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
from pathlib import Path

from tests.load.measures import Measure, grew, loaded_server, many_approvals, many_calls, many_clients

HEAD = (
    "| load | seconds | open files: before -> after | objects | thousands of memory blocks |\n"
    "| --- | ---: | ---: | ---: | ---: |\n"
)


async def measure(directory: Path, calls: int) -> list[Measure]:
    """Each load twice in a row but the last: the first fills caches."""
    async with loaded_server(directory / "asks") as loaded:
        measures = [await many_approvals(loaded, 200) for _ in range(2)]
        measures += [await many_clients(loaded, 1000) for _ in range(2)]
    async with loaded_server(directory / "allows", allows=True) as loaded:
        measures += [await many_calls(loaded, calls, 100) for _ in range(2)]
        return [*measures, await many_calls(loaded, calls // 5, 1)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument(
        "--calls", type=int, default=10_000, help="of one run with 100 a step; a fifth of it with one a step"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agent-kernel-load-", ignore_cleanup_errors=True) as directory:
        measures = asyncio.run(measure(Path(directory), options.calls))
    sys.stdout.write(HEAD + "".join(f"{one.row()}\n" for one in measures))
    faults = [*(one.left_behind for one in measures), *itertools.starmap(grew, itertools.pairwise(measures))]
    faults = [fault for fault in faults if fault]
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
