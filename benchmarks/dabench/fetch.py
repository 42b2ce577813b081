"""Gets the data set from its publisher, at one commit, and checks every file against its digest."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from benchmarks.dabench.dataset import DabenchError

COMMIT = "d02d18a64da23f9dcc8f5a529f6203e0010c2072"
BASE = f"https://raw.githubusercontent.com/InfiAgent/InfiAgent/{COMMIT}"
INSIDE = "examples/DA-Agent"
"""The folder in upstream's repository to which the names in the list of digests are relative."""
DIGESTS = Path(__file__).with_name("sha256sums.txt")
"""In the form that `sha256sum --check` reads."""
TIMEOUT = 60.0

Get = Callable[[str], bytes]
"""Reads a file by its name in the list of digests."""


def digests(listing: Path = DIGESTS) -> dict[str, str]:
    """The SHA-256 of each file by its name."""
    pairs = (line.split("  ", 1) for line in listing.read_text(encoding="utf-8").splitlines())
    return {name: digest for digest, name in pairs}


def fetch(target: Path, get: Get, expected: dict[str, str]) -> int:
    """Bring the files that are not there yet into a folder, and return how many. A file is written whole and only if
    its digest is right. Raises `DabenchError`."""
    fetched = 0
    for name, digest in expected.items():
        path = target / name.removeprefix("data/")
        if path.is_file() and _digest(path.read_bytes()) == digest:
            continue
        content = get(name)
        if (found := _digest(content)) != digest:
            raise DabenchError(
                f"{name} is not the file of commit {COMMIT[:10]}: its SHA-256 is {found}, not {digest}. Check out that "
                "commit for --from, or look at what a proxy makes of the download."
            )
        _write(path, content)
        fetched += 1
    return fetched


def from_checkout(folder: Path) -> Get:
    """Files of a checkout of upstream's repository, or of its folder `examples/DA-Agent`."""

    def get(name: str) -> bytes:
        for path in (folder / INSIDE / name, folder / name):
            if path.is_file():
                return path.read_bytes()
        raise DabenchError(
            f"{folder} has no {INSIDE}/{name}. --from takes a checkout of github.com/InfiAgent/InfiAgent."
        )

    return get


def from_web(base: str = BASE) -> Get:
    """Files of the web."""

    def get(name: str) -> bytes:
        address = f"{base}/{INSIDE}/{quote(name)}"
        try:
            with closing(urlopen(address, timeout=TIMEOUT)) as answer:
                content: bytes = answer.read()
        except (URLError, HTTPException, TimeoutError) as error:
            raise DabenchError(
                f"{address} can't be fetched: {error}. Try again, or clone the repository where there is a network and "
                "give the checkout: fetch --from DIR."
            ) from None
        return content

    return get


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    shutil.move(file.name, path)
    path.chmod(0o644)
