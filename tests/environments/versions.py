"""Environments with another ipykernel or JupyterLab: made on demand, kept in `.cache`. All else is this environment's
own."""

import fcntl
import os
import site
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[2] / ".cache"

VERSIONS = ["7.0.1", "7.3.0", "7.4.0"]
"""The oldest ipykernel that is taken, and those where what a page says reaches a busy kernel by different ways."""


def python_with(asked: str, package: str = "ipykernel") -> str:
    """The path of a Python that has this version of a package. Skips the test where it can't be installed."""
    if asked == version(package):
        return sys.executable
    return _python_in(PLACE / f"{package}s", asked, ["--no-deps", f"{package}=={asked}"])


def python_beside(name: str, *requirements: str) -> str:
    """The path of a Python that has what people install beside, with all that it depends on. Skips the test where it
    can't be installed."""
    return _python_in(PLACE / "beside", name, requirements)


def _python_in(place: Path, name: str, requirements: Sequence[str]) -> str:
    home = place / name
    python = home / "bin" / "python"
    place.mkdir(parents=True, exist_ok=True)
    with (place / f"{name}.lock").open("w") as lock:  # tests run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            venv.create(home, clear=True, symlinks=True)
            install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
            if subprocess.run([*install, *requirements], check=False).returncode:
                pytest.skip(f"{' '.join(requirements)} can't be installed here.")
            _look_into_this_environment(python)
            (home / "complete").touch()
    return str(python)


def _look_into_this_environment(python: Path) -> None:
    """`addsitedir`, not a plain path: the project itself may be a `.pth` file of this environment."""
    folders = {sysconfig.get_path("purelib"), *site.getsitepackages()}
    lines = "".join(f"import site; site.addsitedir({folder!r})\n" for folder in sorted(folders))
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()
    Path(own, "zz_this_environment.pth").write_text(lines)


def beside_this_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables with which JupyterLab of another environment has this one's extensions."""
    places = filter(None, [f"{sys.prefix}/share/jupyter", os.environ.get("JUPYTER_PATH")])
    return {**variables, "JUPYTER_PATH": os.pathsep.join(places)}
