"""The peers' environment, apart from the project's own."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.frame import PEERS_PYTHON, has_peers

REQUIREMENTS = Path(__file__).with_name("peers.txt")
PLACE = PEERS_PYTHON.parents[1]
INSTALLED = PLACE / REQUIREMENTS.name
"""What is installed there."""


def are_current() -> bool:
    return has_peers() and INSTALLED.exists() and INSTALLED.read_text() == REQUIREMENTS.read_text()


def install() -> None:
    """Make it, or make it anew. Where that fails, the project is still measured against the raw floors."""
    print(f"Installing the peers into {PLACE} (once, about a minute)", file=sys.stderr, flush=True)
    shutil.rmtree(PLACE, ignore_errors=True)
    fresh = PLACE.with_name("bench-peers.new")
    venv.create(fresh, with_pip=True, clear=True)
    pip = [fresh / "bin" / "python", "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS]
    if subprocess.run(pip, check=False).returncode == 0:
        shutil.copy(REQUIREMENTS, fresh)
        fresh.rename(PLACE)
    else:
        print(
            "The peers could not be installed; pip says why above. They are left out of the table, with the goals that "
            "are ratios to them. The next run tries again; `--no-peers` does not try.",
            file=sys.stderr,
        )
