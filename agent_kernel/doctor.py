"""Checks an installation, for `agent-kernel doctor`."""

import asyncio
import importlib
import importlib.metadata
import importlib.resources
import importlib.util
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent_kernel.approvals.folder_file import read_limits
from agent_kernel.errors import LogUnavailable, OtherSchema
from agent_kernel.log.file_faults import ADVICE
from agent_kernel.log.opening import LOCAL, one_at_a_time, open_to_read
from agent_kernel.models.checkup import Finding, check_up
from agent_kernel.protocol.figures import plural
from agent_kernel.protocol.lists import ModelsView, ServersView
from agent_kernel.tools.review.hidden import reveal
from agent_kernel.tools.walls.inside import found_walls

if TYPE_CHECKING:
    from agent_kernel.terminal.connection import Place

AnswerT = TypeVar("AnswerT")
SERVER_SECONDS = 10.0
"""How long a running server has for each answer: the endpoints whose models it lists have half of it."""
OLDEST_KERNEL = (7, 0)
DEMO_ADVICE = "Or try the recorded demo, which needs no model: agent-kernel demo"
LAB_EXTENSION = "agent-kernel"
WIDGET_EXTENSIONS = ("anywidget", "@jupyter-widgets/jupyterlab-manager")
CONFIG_FILES = ("jupyter_config", "jupyter_server_config", "jupyter_agent_kernel_server_config")
"""The names of the files in which Jupyter looks for the settings of a server extension."""


def examine(
    environ: Mapping[str, str], *, ask: bool = True, tell: Callable[[str], None] = lambda _: None
) -> list[Finding]:
    """All findings, the installation first and the models last. With `ask` each model endpoint is asked to make one
    tool call, which costs a few tokens. `tell` is told of each wait for a service."""
    loads = _loads()
    log = [_log()] if loads.mark == "ok" else []
    learned = asyncio.run(of_running_servers()) if ask and loads.mark == "ok" else []
    servers = _mcp_servers(environ) if loads.mark == "ok" else []
    models = _models(environ, ask=ask, tell=tell)
    return [_enabled(), loads, _bundle(), *_lab(), _kernel(), _walls(), *log, *_folder(), *servers, *models, *learned]


def default_log() -> Path:
    """The path of the server's log, unless it is configured otherwise."""
    from jupyter_core.paths import jupyter_data_dir

    from agent_kernel_server.app import LOG_NAME

    return Path(jupyter_data_dir()) / "agent-kernel" / LOG_NAME


def _enabled() -> Finding:
    from jupyter_core.paths import jupyter_config_path
    from jupyter_server.services.config import ConfigManager

    # As the server itself decides: what its own settings say goes before what extensions say of themselves.
    section = ConfigManager(read_config_path=jupyter_config_path()).get("jupyter_server_config")
    enabled = dict(section.get("ServerApp", {}).get("jpserver_extensions", {}))
    enabled.update(_server_configuration("ServerApp")[0].get("jpserver_extensions") or {})
    if enabled.get("agent_kernel_server"):
        return Finding("ok", "The Jupyter server extension is enabled.")
    run = "jupyter server extension enable agent_kernel_server"
    advice = f"Run: {run}, and let no jupyter_server_config.py say otherwise."
    return Finding("MEND", "The Jupyter server extension is not enabled here.", advice)


def _loads() -> Finding:
    try:
        importlib.import_module("agent_kernel_server.app")
        importlib.import_module("agent_kernel_server.service_settings")  # the app imports it when it is used
    except ImportError as error:
        return Finding(
            "MEND", f"The server extension does not load: {error}", "Run: pip install --force-reinstall . from a clone"
        )
    return Finding("ok", "The server extension loads.")


def _lab() -> Iterator[Finding]:
    """Findings on JupyterLab and the extensions by which it shows cards. Without our own, everything else works."""
    if importlib.util.find_spec("jupyterlab_server") is None:
        yield Finding("note", "JupyterLab is not installed in this environment.", "Run: pip install 'jupyterlab>=4.4'")
        return
    from jupyter_core.paths import jupyter_path
    from jupyterlab_server.config import get_page_config

    settings = Path(sys.prefix) / "share" / "jupyter" / "lab" / "settings"
    page = get_page_config(jupyter_path("labextensions"), str(settings))
    installed = {one["name"] for one in page["federated_extensions"]}
    if lacking := [name for name in WIDGET_EXTENSIONS if name not in installed]:
        advice = "Run: pip install --force-reinstall anywidget ipywidgets"
        yield Finding("MEND", f"JupyterLab does not find {' and '.join(lacking)}.", advice)
    else:
        yield Finding("ok", "JupyterLab can show widgets.")
    without = "Code of a run can't be inserted as cells, and keys in records of reopened notebooks reach the notebook"
    if LAB_EXTENSION not in installed:
        advice = "Run: pip install --force-reinstall . from a clone"
        yield Finding("note", f"JupyterLab does not find the extension {LAB_EXTENSION}. {without}.", advice)
    elif off := [name for name in page["disabledExtensions"] if name.split(":")[0] == LAB_EXTENSION]:
        advice = f"Run: jupyter labextension enable {' '.join(off)}"
        yield Finding("note", f"The JupyterLab extension is disabled: {', '.join(off)}. {without}.", advice)
    else:
        yield Finding("ok", "The JupyterLab extension is enabled.")
    if importlib.util.find_spec("jupytext") is not None:
        what = "jupytext writes the prompts of %%agent cells into scripts as they stand, so that these are no Python"
        yield Finding("note", f"{what}, unless it is told.", 'Put custom_cell_magics = "agent" into jupytext.toml')


def _bundle() -> Finding:
    if (importlib.resources.files("agent_kernel_widgets") / "static" / "index.js").is_file():
        return Finding("ok", "The front end is built.")
    advice = "Run: pip install . from a clone (it needs Node 20)"
    return Finding("MEND", "The front end is not built: cards stay empty.", advice)


def _kernel() -> Finding:
    version = importlib.metadata.version("ipykernel")
    release = tuple(int(part) for part in version.split(".")[:2])
    if release < OLDEST_KERNEL:
        return Finding("MEND", f"ipykernel {version} is too old.", "Run: pip install --upgrade ipykernel")
    return Finding("ok", f"ipykernel {version}.")


def _walls() -> Finding:
    found = found_walls()
    if found.kind == "none":
        return Finding(
            "note", f"Shell commands of the agent run without walls: {found.why}.", "Run: apt install bubblewrap"
        )
    return Finding("ok", f"Shell commands run inside walls: {found.kind}.")


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
    try:
        fault = fault_of(path)
    except OtherSchema as error:
        return Finding("MEND", str(error))
    if fault is not None:
        return Finding("MEND", f"The log {path} {fault}.", ADVICE)
    if path.stat().st_mode & 0o077:
        return Finding("note", f"Others on this machine can read the log {path}.", f"Run: chmod 600 {path}")
    return Finding("ok", f"The log is {path}, {path.stat().st_size / 1e6:.1f} MB.")


def _folder() -> Iterator[Finding]:
    """Findings on the files that limit runs of notebooks in this folder."""
    found = read_limits(Path.cwd())
    said = found.words()
    if said is not None:
        yield Finding("note", f"Runs of notebooks in this folder are limited by {reveal(said)}.")
    for note in found.notes:
        yield Finding("MEND" if found.closed and note.endswith("nothing runs unasked.") else "note", reveal(note))


def fault_of(path: Path) -> str | None:
    """What is wrong with an existing log, as the end of a sentence; `None` if nothing is. Raises `OtherSchema`.
    `agent-kernel audit --check` says whether its trail is whole."""
    try:
        with closing(open_to_read(path)[0]) as sql:
            (first,) = sql.execute("PRAGMA quick_check(1)").fetchone()
            return None if first == "ok" else f"is damaged: {first.splitlines()[-1]}"
    except OtherSchema:
        raise
    except LogUnavailable:  # a server has locked it
        return None
    except (OSError, sqlite3.Error) as error:
        return f"can't be read: {error}"


def _models(environ: Mapping[str, str], *, ask: bool, tell: Callable[[str], None]) -> Iterator[Finding]:
    """Findings on the model endpoints of the environment and of the server's configuration."""
    from agent_kernel.models.endpoints import configured
    from agent_kernel.models.resolver import ModelResolver
    from agent_kernel.models.retry_policy import RetryPolicy

    traits, faults = _server_configuration("AgentKernelServer")
    yield from (Finding("MEND", fault, "The server leaves such a file out.") for fault in faults)
    endpoints = traits.get("endpoints") or {}
    if not isinstance(endpoints, Mapping):
        yield Finding("MEND", "c.AgentKernelServer.endpoints is not a dictionary.", "Set it to one: name -> settings.")
        endpoints = {}
    resolver = ModelResolver(
        default=traits.get("default_model") or None,
        endpoints=[configured(str(name), fields) for name, fields in endpoints.items()],
        environ=dict(environ),
        retry=RetryPolicy(tries=2),  # as long as the service asks for, once
    )
    if not resolver.endpoints and resolver.default in (None, "demo"):
        yield _without_endpoints(resolver.default)
        return

    async def examined() -> list[Finding]:
        try:
            return await check_up(resolver, ask=ask, tell=tell)
        finally:
            await resolver.aclose()

    yield from asyncio.run(examined())


def _mcp_servers(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Findings on the configuration of MCP servers, of which none is started."""
    from jupyter_core.paths import jupyter_config_dir

    from agent_kernel_server.mcp_tools.configuration import FILE_NAME, NO_PACKAGE, of_entries, read_file

    if (version := importlib.metadata.version("mcp")).startswith("1."):
        yield Finding("note", f"mcp {version}. {NO_PACKAGE}")
    traits, _ = _server_configuration("AgentKernelServer")
    site = traits.get("mcp_servers") or {}
    path = Path(jupyter_config_dir()) / FILE_NAME
    found = of_entries(site, "AgentKernelServer.mcp_servers", "site", environ) if isinstance(site, Mapping) else None
    own = read_file(path, "user", environ)
    both = found.and_(own) if found is not None else own
    for fault in both.faults:
        yield Finding("MEND", reveal(fault), f"See docs/mcp-tools.md; your own file is {path}.")
    if both.servers:
        yield Finding("ok", f"MCP servers are configured: {reveal(', '.join(one.name for one in both.servers))}.")


async def of_running_servers() -> list[Finding]:
    """What the user's running Jupyter servers alone know: what refusals taught them of their models, and the states
    of their MCP servers."""
    from agent_kernel.terminal.connection import running_servers

    found = await asyncio.gather(*map(_of_server, running_servers()))
    return [finding for findings in found for finding in findings]


async def _of_server(place: "Place") -> list[Finding]:
    models, listed = await asyncio.gather(_ask(place, "models", ModelsView), _ask(place, "mcp-servers", ServersView))
    advice = "It forgets that when a longer request is accepted, and when it is started again."
    found = [
        Finding(
            "note",
            f"The server at {place.url} takes the context of {model.name} for {model.context_tokens:,} tokens: "
            f"{endpoint.name} refused a longer request.",
            advice,
        )
        for endpoint in (models.endpoints if models is not None else ())
        for model in endpoint.models
        if model.context_is_learned
    ]
    for one in listed.servers if listed is not None else ():
        what = f"The MCP server {reveal(one.name)} of {place.url} is {one.state}"
        if one.state == "ready":
            found.append(
                Finding("ok", f"{what}: {plural(one.tools, 'tool')}, about {one.tokens:,} tokens of each request.")
            )
        else:
            found.append(Finding("note", f"{what}. {reveal(one.error)}", "It is tried again."))
        found += [Finding("note", reveal(note)) for note in one.notes]
    return found


async def _ask(place: "Place", path: str, kind: type[AnswerT]) -> AnswerT | None:
    """`None` of a server that does not answer in time, has no extension, or one of another version."""
    from agent_kernel.terminal.connection import Lost, Refused, Server

    try:
        async with asyncio.timeout(SERVER_SECONDS), Server(place) as server:
            return await server.get(path, kind)
    except (Lost, Refused, TimeoutError):
        return None


def _without_endpoints(default: str | None) -> Finding:
    if default == "demo":
        return Finding("ok", "The model is the recorded demo.")
    advice = f"Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or OPENAI_BASE_URL and AGENT_KERNEL_MODEL. {DEMO_ADVICE}"
    return Finding("note", "No model is configured in this environment.", advice)


def _server_configuration(section: str) -> tuple[Mapping[str, Any], list[str]]:
    """The settings of the server, or of its extension, in Jupyter's configuration files, and the errors of files."""
    from jupyter_core.paths import jupyter_config_path
    from traitlets.config import Application
    from traitlets.config.loader import LazyConfigValue

    reader, faults = Application(raise_config_file_errors=True), []
    for name in CONFIG_FILES:
        try:
            reader.load_config_file(name, path=[str(Path.cwd()), *jupyter_config_path()])
        except Exception as error:  # noqa: BLE001 -- it is a program of the user's
            faults.append(f"{name} can't be read: {type(error).__name__}: {error}")
    settings = reader.config.get(section, {})
    changes = {name: value.get_value({}) for name, value in settings.items() if isinstance(value, LazyConfigValue)}
    return {**settings, **changes}, faults
