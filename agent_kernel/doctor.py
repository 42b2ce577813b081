"""What an installation needs, examined piece by piece: `agent-kernel doctor`."""

import importlib
import importlib.metadata
import importlib.resources
import importlib.util
import json
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_kernel.log.opening import LOCAL, one_at_a_time

OLDEST_KERNEL = (6, 29)
DEMO_ADVICE = "Or try the recorded demo, which needs no model: agent-kernel demo"
REACH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    mark: Literal["ok", "note", "MEND"]
    """`MEND` means that Agent Kernel does not work until it is done."""
    text: str
    advice: str = ""


def examine(environ: Mapping[str, str]) -> list[Finding]:
    """All findings, the installation first and the model last. Asks the model's endpoint for its list of models."""
    loads = _loads()
    log = [_log()] if loads.mark == "ok" else []
    return [_enabled(), loads, *_lab(), _bundle(), _widgets(), _kernel(), *log, _model(environ)]


def default_log() -> Path:
    """Where the server extension keeps its log unless it is configured otherwise."""
    from jupyter_core.paths import jupyter_data_dir

    from agent_kernel_server.app import LOG_NAME

    return Path(jupyter_data_dir()) / "agent-kernel" / LOG_NAME


def _enabled() -> Finding:
    from jupyter_core.paths import jupyter_config_path
    from jupyter_server.services.config import ConfigManager

    section = ConfigManager(read_config_path=jupyter_config_path()).get("jupyter_server_config")
    if section.get("ServerApp", {}).get("jpserver_extensions", {}).get("agent_kernel_server"):
        return Finding("ok", "The Jupyter server extension is enabled.")
    advice = "Run: jupyter server extension enable agent_kernel_server"
    return Finding("MEND", "The Jupyter server extension is not enabled here.", advice)


def _loads() -> Finding:
    try:
        importlib.import_module("agent_kernel_server.app")
    except ImportError as error:
        return Finding(
            "MEND", f"The server extension does not load: {error}", "Run: pip install --force-reinstall agent-kernel"
        )
    return Finding("ok", "The server extension loads.")


def _lab() -> Iterator[Finding]:
    if importlib.util.find_spec("jupyterlab") is None:
        yield Finding("note", "JupyterLab is not installed in this environment.", "Run: pip install 'jupyterlab>=4.4'")


def _bundle() -> Finding:
    bundle = importlib.resources.files("agent_kernel_widgets") / "static" / "index.js"
    if bundle.is_file():
        return Finding("ok", "The front end is built.")
    return Finding(
        "MEND", "The front end is not built: cards stay empty.", "In a checkout, run: pip install -e . (Node 20)"
    )


def _widgets() -> Finding:
    from jupyter_core.paths import jupyter_path

    installed = {name for path in jupyter_path("labextensions") for name in _names(Path(path))}
    missing = [name for name in ("anywidget", "@jupyter-widgets/jupyterlab-manager") if name not in installed]
    if not missing:
        return Finding("ok", "JupyterLab can show widgets.")
    return Finding(
        "MEND",
        f"JupyterLab does not find {' and '.join(missing)}.",
        "Run: pip install --force-reinstall anywidget ipywidgets",
    )


def _names(labextensions: Path) -> Iterator[str]:
    for package in (*labextensions.glob("*/package.json"), *labextensions.glob("@*/*/package.json")):
        yield str(package.parent.relative_to(labextensions))


def _kernel() -> Finding:
    version = importlib.metadata.version("ipykernel")
    release = tuple(int(part) for part in version.split(".")[:2])
    if release < OLDEST_KERNEL:
        return Finding("MEND", f"ipykernel {version} is too old.", "Run: pip install --upgrade ipykernel")
    return Finding("ok", f"ipykernel {version}.")


def _log() -> Finding:
    path = default_log()
    directory = next(parent for parent in path.parents if parent.exists())
    try:
        alone = one_at_a_time(directory)
    except (OSError, sqlite3.Error) as error:
        return Finding("MEND", f"No log can be kept at {path}: {error}.", f"Make it writable, or {LOCAL}.")
    if alone:
        return Finding(
            "note",
            f"One server at a time can have the log {path}: its file system has no memory that processes share.",
            f"For several servers, {LOCAL} (for each its own, where they are on several machines).",
        )
    if not path.exists():
        return Finding("ok", f"No log yet; it will be {path}.")
    if path.stat().st_mode & 0o077:
        return Finding("note", f"Others on this machine can read the log {path}.", f"Run: chmod 600 {path}")
    return Finding("ok", f"The log is {path}, {path.stat().st_size / 1e6:.1f} MB.")


def _model(environ: Mapping[str, str]) -> Finding:
    """The endpoint that the environment names; endpoints of a server's configuration are that server's own."""
    key, base_url = environ.get("OPENAI_API_KEY"), environ.get("OPENAI_BASE_URL")
    if environ.get("AGENT_KERNEL_MODEL") == "demo":
        return Finding("ok", "The model is the recorded demo.")
    if not key and not base_url:
        advice = f"Set OPENAI_API_KEY, or OPENAI_BASE_URL and AGENT_KERNEL_MODEL. {DEMO_ADVICE}"
        return Finding("note", "No model is configured in this environment.", advice)
    return _reach(base_url or "https://api.openai.com/v1", key)


def _reach(base_url: str, key: str | None) -> Finding:
    url = f"{base_url.rstrip('/')}/models"
    if not url.startswith(("http://", "https://")):
        return Finding("MEND", f"OPENAI_BASE_URL is not a web address: {base_url}", "Set it to one, ending in /v1.")
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=REACH_SECONDS) as response:
            json.load(response)
    except urllib.error.HTTPError as error:
        advice = "Check OPENAI_API_KEY." if error.code in (401, 403) else "Check OPENAI_BASE_URL: it often ends in /v1."
        return Finding("MEND", f"{url} answers {error.code}.", advice)
    except (OSError, ValueError) as error:
        return Finding(
            "MEND", f"{url} does not answer: {error}", f"Check OPENAI_BASE_URL and the network. {DEMO_ADVICE}"
        )
    return Finding("ok", f"The model's endpoint answers: {base_url}")
