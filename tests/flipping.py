"""Another process that exchanges a folder for a link, and back, as fast as it can."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FLIP = """
import ctypes, os, sys
folder, link = map(os.fsencode, sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
SWAP, HERE = 2, -100
def exchange():
    if sys.platform == "darwin":
        return libc.renamex_np(folder, link, SWAP)
    return libc.renameat2(HERE, folder, HERE, link, SWAP)
while exchange() == 0:
    print(flush=True)
    break
while exchange() == 0:
    pass
sys.exit(os.strerror(ctypes.get_errno()))
"""


@contextmanager
def flipped(folder: Path, outside: Path) -> Iterator[None]:
    link = folder.with_name(f"{folder.name}.link")
    link.symlink_to(outside)
    with subprocess.Popen([sys.executable, "-c", _FLIP, str(folder), str(link)], stdout=subprocess.PIPE) as flipping:
        assert flipping.stdout is not None
        flipping.stdout.readline()
        try:
            yield
            assert flipping.poll() is None
        finally:
            flipping.kill()
