"""`python -m tests.second_try OPTIONS -- SELECTION` runs `pytest OPTIONS SELECTION`, and each test that failed once
more, alone in a process of its own.

A test that passes then is flaky, not broken: it is listed in `FLAKY`, which `make test` prints at its end, and the exit
status is 0. `SELECTION` has the paths and the options of the whole run only, such as `-n 2`.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FLAKY = Path("test-results/flaky.txt")
MOST_SECOND_TRIES = 10
"""More failures than these have one cause, which is no chance."""

_LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
_TESTS_FAILED = 1
"""pytest's exit status. Others (interrupted, an internal error, no tests) are final."""


def run(options: Sequence[str], selection: Sequence[str]) -> int:
    """The exit status of the tests, after a second try of those that failed."""
    status = _pytest(*options, "--cache-clear", *selection)
    if status != _TESTS_FAILED:
        return status
    failed = sorted({_rerun_of(node_id) for node_id in json.loads(_LAST_FAILED.read_text())})
    if not 0 < len(failed) <= MOST_SECOND_TRIES:
        return status
    for node_id in failed:
        sys.stdout.write(f"\n== a second try, alone: {node_id}\n")
        sys.stdout.flush()
        if _pytest(*options, node_id) != 0:
            return status
        FLAKY.parent.mkdir(exist_ok=True)
        with FLAKY.open("a") as listed:
            listed.write(f"{node_id}\n")
    return 0


def _rerun_of(node_id: str) -> str:
    """What runs the test alone: itself, or the whole notebook, where it is a cell that needs the cells above it."""
    path = node_id.partition("::")[0]
    return path if path.endswith(".ipynb") else node_id


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    both = sys.argv[1:]
    at = both.index("--")
    sys.exit(run(both[:at], both[at + 1 :]))
