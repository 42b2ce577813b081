"""Which walls this machine has: found once, by running `true` inside them, never by reading versions."""

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

from agent_kernel.protocol.calls import Walls, WallsFound

_SECONDS = 20.0
_MOST_WORDS = 200


@functools.cache
def found_walls(*, bubblewrap: bool = True, landlock: bool = True) -> WallsFound:
    """The strongest walls that work here, of those that may be used. It starts a process: not for an event loop."""
    if not sys.platform.startswith("linux"):
        return WallsFound("none", "walls need Linux")
    reasons = []
    for found, wanted in ((WallsFound("bubblewrap"), bubblewrap), (WallsFound("Landlock"), landlock)):
        why = _why_not(found) if wanted else "not to be used"
        if why is None:
            return found
        reasons.append(f"{found.kind}: {why}")
    return WallsFound("none", "; ".join(reasons))


def _why_not(found: WallsFound) -> str | None:
    """Why these walls do not work; `None` where they do."""
    from agent_kernel.tools.walls.inside import put_inside
    from agent_kernel.tools.walls.room import make_room

    with tempfile.TemporaryDirectory(prefix="agent-kernel-walls-") as folder:
        room = make_room(Walls(), Path(folder))
        try:
            with put_inside(found, room, ["true"]) as (words, files):
                tried = subprocess.run(
                    words,
                    env=dict(room.environment),
                    pass_fds=files,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=_SECONDS,
                    check=False,
                )
        except FileNotFoundError:
            return "not installed"
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)[:_MOST_WORDS]
    said = tried.stderr.strip().rpartition("\n")[2].removeprefix("bwrap: ")[:_MOST_WORDS]
    return None if tried.returncode == 0 else said or f"exit code {tried.returncode}"
