"""Another process that puts a link where a folder was, and the folder back, as fast as it can."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FLIP = """
import os, sys
folder, outside = sys.argv[1:]
print(flush=True)
while True:
    os.rename(folder, folder + ".away")
    os.symlink(outside, folder)
    os.unlink(folder)
    os.rename(folder + ".away", folder)
"""


@contextmanager
def flipped(folder: Path, outside: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", _FLIP, str(folder), str(outside)], stdout=subprocess.PIPE) as flipping:
        assert flipping.stdout is not None
        flipping.stdout.readline()
        try:
            yield
        finally:
            flipping.kill()
