"""`agent-kernel demo`: JupyterLab on copies of the demo notebooks."""

import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from agent_kernel.errors import ConfigurationError
from agent_kernel.models.endpoints import ENVIRONMENT

DEMO_NOTEBOOK = "quickstart.ipynb"
DEMO_PROMPT = "%%agent --model demo"
LAB_DEFAULTS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}


def open_demo(directory: Path, lab_arguments: Sequence[str]) -> NoReturn:
    """Copy the demo notebooks to `directory`, unless there are copies, and replace this process by JupyterLab.

    Raises `ConfigurationError` where JupyterLab or the notebooks are missing.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise ConfigurationError("JupyterLab is not installed. Run: pip install '.[demo]' from a clone.")
    target = prepare_demo(_demo_source(), directory, os.environ)
    print(f"Demo notebook: {target}", flush=True)
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={target.parent}",
        f"--LabApp.default_url=/lab/tree/{target.name}",
        *lab_arguments,
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # Jupyter refuses root by default, but a container may have no other user
    environ = {**os.environ} if _has_own_model(os.environ) else {**os.environ, "AGENT_KERNEL_MODEL": "demo"}
    paths = [str(write_lab_defaults(target.parent)), environ.get("JUPYTER_CONFIG_PATH", "")]
    environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    os.execve(sys.executable, command, environ)


def write_lab_defaults(directory: Path) -> Path:
    """Write defaults of JupyterLab for the demo: no dialogs, such as the one about news. The user's own settings win.

    Returns the directory for JUPYTER_CONFIG_PATH.
    """
    config = directory / ".jupyter"
    file = config / "labconfig" / "default_setting_overrides.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(LAB_DEFAULTS, indent=1) + "\n", encoding="utf-8")
    return config


def prepare_demo(source: Path, directory: Path, environ: Mapping[str, str]) -> Path:
    """Copy the demo notebooks without outputs, with their data and recordings, and return the path of the first one. If
    the environment has a model, that one's cells use it instead of the recording. Copies that exist are left as they
    are."""
    folder = directory.resolve()
    kinds = ("*.ipynb", "README.md", "data/*.*", "recordings/*.jsonl", "recordings/*/*.png")
    for path in (path for kind in kinds for path in source.glob(kind)):
        target = folder / path.relative_to(source)
        if not target.exists():
            content = path.read_bytes()
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_without_outputs(content, environ) if path.suffix == ".ipynb" else content)
    return folder / DEMO_NOTEBOOK


def _without_outputs(content: bytes, environ: Mapping[str, str]) -> bytes:
    notebook = json.loads(content)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
            if _has_own_model(environ):
                cell["source"] = [line.replace(DEMO_PROMPT, "%%agent", 1) for line in cell["source"]]
    return f"{json.dumps(notebook, indent=1, ensure_ascii=False)}\n".encode()


def _demo_source() -> Path:
    """The folder of the demo notebooks: in the checkout, or as the wheel has installed it."""
    checkout = Path(__file__).parents[1] / "notebooks"
    if (checkout / DEMO_NOTEBOOK).is_file():
        return checkout
    for file in importlib.metadata.files("agent-kernel") or ():
        if file.name == DEMO_NOTEBOOK:
            return Path(str(file.locate())).resolve().parent
    raise ConfigurationError(
        "The demo notebooks are not part of this installation. Run: pip install --force-reinstall . from a clone."
    )


def _has_own_model(environ: Mapping[str, str]) -> bool:
    return any(environ.get(name) for name in ENVIRONMENT)
