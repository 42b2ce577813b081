"""A FUSE mount without shared memory, as some network homes are; run as a script, install what it needs."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import packages

DEVICE = Path("/dev/fuse")
NOT_ALLOWED = ("Operation not permitted", "Permission denied")
WITHOUT_SHARED_MEMORY = ("-o", "direct_io")
"""What is mapped of a file that is read and written directly can't be shared."""


class NoFuse(Exception):
    """Nothing can be mounted here; the message says why."""


@contextmanager
def mounted(source: Path, target: Path, *options: str) -> Iterator[None]:
    """`source`, seen at `target` through FUSE. Raises `NoFuse`."""
    if not DEVICE.exists():
        raise NoFuse(f"FUSE is missing: there is no {DEVICE}")
    if shutil.which("bindfs") is None or shutil.which("fusermount3") is None:
        raise NoFuse("bindfs is not installed: run `python -m tests.fuse` as root")
    for directory in (source, target):
        directory.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["bindfs", "--no-allow-other", *options, str(source), str(target)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and any(words in done.stderr for words in NOT_ALLOWED):
        raise NoFuse(f"FUSE may not be used here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(target)], check=True)


def main() -> int:
    if not DEVICE.exists():
        sys.stdout.write(f"There is no {DEVICE}: the tests that need a FUSE mount are skipped.\n")
    elif shutil.which("bindfs") is None or shutil.which("fusermount3") is None:
        if not packages.may_install():
            sys.stdout.write("Without bindfs and fuse3, the tests that need a FUSE mount are skipped. Install them.\n")
            return 0
        sys.stdout.write("Installing bindfs and fuse3 for the tests that need a FUSE mount.\n")
        packages.install("bindfs", "fuse3")
    return 0


if __name__ == "__main__":
    sys.exit(main())
