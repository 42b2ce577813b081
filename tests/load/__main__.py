"""The whole load, some minutes: `python -m tests.load` prints what it took and what the server held.

It ends with 1 where the server did not let go of something, or holds more after the same load a second time.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.load.measures import Measure, grew, loaded_server, many_approvals, many_calls, many_clients, table


async def measure(directory: Path, calls: int) -> list[list[Measure]]:
    """The measures of each server, each load twice in a row."""
    async with loaded_server(directory / "asks") as loaded:
        asks = [await many_approvals(loaded, 200), await many_approvals(loaded, 200)]
        clients = [await many_clients(loaded, 1000), await many_clients(loaded, 1000)]
    async with loaded_server(directory / "allows", allows=True) as loaded:
        together = [await many_calls(loaded, calls, 100), await many_calls(loaded, calls, 100)]
        single = [await many_calls(loaded, calls // 5, 1)]
    return [asks, clients, together, single]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument(
        "--calls",
        type=int,
        default=10_000,
        help="tool calls of one run with 100 a step (default: 10,000); a fifth of it with one a step",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agent-kernel-load-", ignore_cleanup_errors=True) as directory:
        loads = asyncio.run(measure(Path(directory), options.calls))
    measures = [one for load in loads for one in load]
    sys.stdout.write(table(measures) + "\n")
    faults = [str(one) for one in measures if not one.let_go]
    faults += [f"more after the second time: {load[0].name}" for load in loads if len(load) > 1 and grew(*load)]
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
