"""Makes the virtual environment of the peers, separate from the project's."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.frame import PEERS_PYTHON, has_peers

REQUIREMENTS = Path(__file__).with_name("peers.txt")
PLACE = PEERS_PYTHON.parents[1]
INSTALLED = PLACE / REQUIREMENTS.name
"""A copy of the requirements that are installed there."""


def are_current() -> bool:
    return has_peers() and INSTALLED.exists() and INSTALLED.read_text() == REQUIREMENTS.read_text()


def install() -> None:
    """Make or remake the environment. If that fails, the project is still measured against the raw baselines."""
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
