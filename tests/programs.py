"""Programs that a test starts: each writes into a file of its own, and ends with the test."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
STARTS_WITHIN, ENDS_WITHIN = 120.0, 30.0


def wait_until(look: Callable[[], T | None], what: str, seconds: float = 60) -> T:
    """Look again and again until `look` returns something true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if seen := look():
            return seen
        time.sleep(0.05)
    raise AssertionError(f"Waited {seconds:.0f} s for {what}.")


def private_home(home: Path) -> dict[str, str]:
    """The variables of a program that has a home of its own, with Jupyter's and IPython's folders in it."""
    places = {"CONFIG_DIR": "config", "DATA_DIR": "data", "RUNTIME_DIR": "runtime"}
    return {
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "lab-settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "lab-workspaces"),
        **{f"JUPYTER_{name}": str(home / place) for name, place in places.items()},
    }


class Program:
    def __init__(self, command: Sequence[str], log: Path, folder: Path, variables: Mapping[str, str]) -> None:
        """`variables` are added to this process's own; the output goes to the end of `log`."""
        self._name = " ".join(command[:3])
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
            )

    def wait_until(self, look: Callable[[], T | None], what: str) -> T:
        """As the function of this name, for a program that starts: it must not end meanwhile."""

        def look_at_both() -> T | None:
            assert self._process.poll() is None, f"{self._name} has ended:\n{self.log_text()[-4000:]}"
            return look()

        try:
            return wait_until(look_at_both, what, STARTS_WITHIN)
        except BaseException:
            self.stop()
            raise

    def log_text(self) -> str:
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """It ends without a chance to do anything."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
