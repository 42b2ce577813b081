"""The command line that puts a command inside Landlock, by `landlock_launcher`."""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agent_kernel.tools.walls import seccomp
from agent_kernel.tools.walls.room import Room

LAUNCHER = Path(__file__).with_name("landlock_launcher.py")


def command_line(room: Room, command: Sequence[str]) -> list[str]:
    described = {
        "folder": str(room.folder),
        "scratch": tempfile.gettempdir() if room.writable else None,
        "hidden": list(map(str, room.hidden)),
        "kept": list(map(str, room.kept)),
        "filter": seccomp.program(datagrams_only=True).hex(),
    }
    return [sys.executable, "-I", "-S", "-B", str(LAUNCHER), json.dumps(described), *command]
