"""Makes the service from the extension's traits."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from logging import Logger
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from jupyter_core.paths import jupyter_config_dir, jupyter_config_path

from agent_kernel.approvals.folder_file import FolderLimits, read_limits
from agent_kernel.instructions import Instructions, read_instructions
from agent_kernel.models.endpoints import BrokenEndpoint, Endpoint, configured
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.protocol.vocabulary import BudgetLimits
from agent_kernel.runtime.settings import RuntimeSettings
from agent_kernel_server.mcp_tools.servers import McpServers
from agent_kernel_server.service import Service


def make_service(app: Any, server: Any, log_path: Path, environ: Mapping[str, str]) -> Service:
    """`app`: the `AgentKernelServer`. `environ`: the environment at the server's start, keys included."""
    models = _models(app, server, environ)
    mcp_servers = McpServers(
        directory=Path(server.config_dir or jupyter_config_dir()),
        root=Path(server.root_dir),
        site=app.mcp_servers,
        environ=environ,
        folder_of=partial(_folder_of, Path(server.root_dir)),
        secrets=models.secrets,
        redirect=lambda: f"{_public_url(server, environ)}agent-kernel/api/mcp-servers/signed-in",
        tokens=log_path.parent / "mcp-tokens",
        logger=app.log,
    )
    settings = replace(_runtime_settings(app, server), server_tools=mcp_servers)
    return Service(app, server, log_path, models, settings, mcp_servers)


def _public_url(server: Any, environ: Mapping[str, str]) -> str:
    """Where browsers reach this server, base URL included: as JupyterHub says, or the site, or as it listens."""
    url = environ.get("JUPYTERHUB_PUBLIC_URL") or server.custom_display_url or server.connection_url
    return url.partition("?")[0].rstrip("/") + "/" if server.base_url in url else urljoin(url, server.base_url)


def warn_of_broken(endpoints: Mapping[Any, Any], log: Logger) -> None:
    for endpoint in _configured(endpoints):
        if isinstance(endpoint, BrokenEndpoint):
            log.warning("%s Everything else works.", endpoint.fault)


def _configured(endpoints: Mapping[Any, Any]) -> list[Endpoint | BrokenEndpoint]:
    return [configured(str(name), fields) for name, fields in endpoints.items()]


def _models(app: Any, server: Any, environ: Mapping[str, str]) -> ModelResolver:
    endpoints = _configured(app.endpoints)
    if app.hide_keys:
        endpoints = [_with_its_key(endpoint, environ) for endpoint in endpoints]
    # A site's own identity provider may have no token.
    token = getattr(server.identity_provider, "token", "")
    return ModelResolver(
        environ=environ,
        default=app.default_model,
        endpoints=endpoints,
        base_directory=Path(server.root_dir),
        other_secrets=[token] if token else [],
    )


def _runtime_settings(app: Any, server: Any) -> RuntimeSettings:
    """Settings have the names of their traits, but for `output_dir`."""
    traits = {name: getattr(app, name) for name in RuntimeSettings.__dataclass_fields__ if app.has_trait(name)}
    traits |= {
        "site_rules": tuple(app.site_rules),
        "shell_environment": tuple(app.shell_environment),
        "hidden_paths": tuple(str(Path(path).resolve()) for path in _own_places(app, server)),
        "default_budget": BudgetLimits(**app.default_budget),
        "conversation_budget": BudgetLimits(**app.conversation_budget),
    }
    return RuntimeSettings(
        **traits,
        read_limits=partial(read_limits_of, Path(server.root_dir)),
        read_instructions=partial(
            read_instructions_of,
            Path(server.root_dir),
            Path(server.config_dir or jupyter_config_dir()) / "agent-kernel",
        ),
        output_directory=Path(app.output_dir) if app.output_dir is not None else None,
    )


def _own_places(app: Any, server: Any) -> list[str]:
    """Where this server has its tokens, settings and log."""
    places = [server.runtime_dir, server.data_dir, server.config_dir, *jupyter_config_path(), app.data_dir]
    return [path for path in places if path]


def read_limits_of(root: Path, notebook: str | None) -> FolderLimits:
    """The limits in the files of a notebook's folder; for a run without a notebook, of the server's root folder."""
    return read_limits(_folder_of(root, notebook), root)


def read_instructions_of(root: Path, own: Path, notebook: str | None) -> Instructions:
    """The instructions of the user, in `own`, and of a notebook's folder, as `read_limits_of`."""
    return read_instructions(_folder_of(root, notebook), root, own)


def _folder_of(root: Path, notebook: str | None) -> Path:
    path = notebook.partition(":")[2] if notebook is not None and notebook.startswith("RTC:") else notebook
    return (root / path).parent if path else root


def _with_its_key(endpoint: Endpoint | BrokenEndpoint, environ: Mapping[str, str]) -> Endpoint | BrokenEndpoint:
    """The endpoint with its present key, because the environment variable was removed."""
    if isinstance(endpoint, BrokenEndpoint) or endpoint.api_key_env is None:
        return endpoint
    key = environ.get(endpoint.api_key_env)
    return replace(endpoint, api_key=lambda: key)
