"""The peers' environment, apart from the project's own."""

import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.frame import PEERS_PYTHON

REQUIREMENTS = Path(__file__).with_name("peers.txt")


def install() -> None:
    """Make it. Where that fails, the project is still measured against the raw floors."""
    place = PEERS_PYTHON.parents[1]
    print(f"Installing the peers into {place} (once)", file=sys.stderr, flush=True)
    venv.create(place.with_name("bench-peers.new"), with_pip=True, clear=True)
    fresh = place.with_name("bench-peers.new")
    done = subprocess.run(
        [fresh / "bin" / "python", "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS], check=False
    )
    if done.returncode == 0:
        fresh.rename(place)
    else:
        print("The peers could not be installed; they are left out of the table.", file=sys.stderr)
