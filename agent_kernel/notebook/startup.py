"""Implements `agent-kernel setup`: `%%agent` is available at each start of IPython, without `%load_ext`.

A file in the start-up folder of IPython's default profile registers the magic as lazy. Nothing of Agent Kernel is
imported before the magic is used, and a kernel starts normally if the package has been removed.
"""

from pathlib import Path

from IPython.paths import get_ipython_dir

FILE_NAME = "50-agent-kernel.py"
CONTENT = """\
# Made by `agent-kernel setup`; `agent-kernel setup --undo` removes it.
# %%agent and %agent are known in each kernel. Nothing is imported before one of them is used.
try:
    get_ipython().magics_manager.register_lazy("agent", "agent_kernel")
except Exception as error:
    print("Agent Kernel was not set up:", error)
"""


class NotOurs(Exception):
    """There is a file of that name with another content than `setup` writes."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is there already, and it is not as `agent-kernel setup` wrote it. It was left as it is. "
            "Move it away, or add `%load_ext agent_kernel` to your notebooks."
        )


def startup_file() -> Path:
    """The path of the file: in IPython's default profile, below IPYTHONDIR where that is set."""
    return Path(get_ipython_dir()) / "profile_default" / "startup" / FILE_NAME


def is_set_up(path: Path) -> bool:
    """Whether the file exists. Raises `NotOurs`, `OSError`."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return False
    if found != CONTENT.encode():
        raise NotOurs(path)
    return True


def set_up(path: Path) -> None:
    """Write the file, unless it exists. Raises `NotOurs`, `OSError`."""
    if is_set_up(path):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(CONTENT)
    except FileExistsError:
        raise NotOurs(path) from None


def undo(path: Path) -> bool:
    """Remove the file. Returns whether it existed. Raises `NotOurs`, `OSError`."""
    if not is_set_up(path):
        return False
    path.unlink()
    return True
