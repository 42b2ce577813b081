"""A real JupyterHub with its proxy: a server for each user, below a path of its own."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.e2e.lab import LabServer
from tests.ports import free_port
from tests.programs import Program

PROXY = Path(__file__).parents[2] / ".cache" / "proxy"
PROXY_PACKAGE = "configurable-http-proxy@^5"
ADMIN = "a-token-of-the-tests-service"
CONFIG = """
c.JupyterHub.bind_url = "http://127.0.0.1:{port}/"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub_port}/"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.command = [{proxy!r}]
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = {homes!r} + "/{{username}}"
c.Spawner.http_timeout = c.Spawner.start_timeout = 120
c.Spawner.cmd = [{python!r}, "-m", "jupyterhub.singleuser"]
c.Spawner.args = ["--allow-root", "--ServerApp.jpserver_extensions={{'agent_kernel_server': True}}"]
c.Spawner.environment = {variables!r}
c.JupyterHub.services = [{{"name": "tests", "api_token": {admin!r}}}]
c.JupyterHub.load_roles = [{{
    "name": "tests", "services": ["tests"], "scopes": ["admin:users", "admin:servers", "tokens", "access:servers"],
}}]
"""


def install_proxy() -> Path:
    """The proxy's program; npm installs it the first time."""
    program = PROXY / "node_modules" / ".bin" / "configurable-http-proxy"
    if not program.exists():
        PROXY.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(PROXY), PROXY_PACKAGE]
        subprocess.run(install, check=True, env={**os.environ, "npm_config_cache": str(PROXY / "npm")})
    return program


class UserServer(LabServer):
    """One user's server at the Hub, as this user sees it or, with another's token, as that one does."""

    def __init__(self, url: str, token: str, root: Path) -> None:
        self.url, self.token, self.root = url, token, root


class Hub:
    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        self.home = home
        self.url = f"http://127.0.0.1:{(port := free_port())}/"
        config = home / "config.py"
        config.write_text(
            CONFIG.format(
                port=port,
                hub_port=free_port(),
                proxy_port=free_port(),
                proxy=str(install_proxy()),
                homes=str(home),
                python=sys.executable,
                variables=dict(variables),
                admin=ADMIN,
            )
        )
        command = [sys.executable, "-m", "jupyterhub", "-f", str(config)]
        self._program = Program(command, home / "hub.log", home, {})
        self._program.wait_until(self._answers, "the Hub to answer")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._program.stop()

    def token_of(self, user: str) -> str:
        """A token with which a program acts as this user, who is made where there is none."""
        try:
            self._api("POST", f"users/{user}")
        except urllib.error.HTTPError as refusal:
            if refusal.code != 409:  # the user is known already
                raise
        token: str = self._api("POST", f"users/{user}/tokens", {"note": "tests"})["token"]
        return token

    def start_server(self, user: str) -> UserServer:
        token = self.token_of(user)
        self._api("POST", f"users/{user}/server")
        self._program.wait_until(lambda: self._is_ready(user), f"the server of {user}")
        return UserServer(f"{self.url}user/{user}/", token, self.home / user)

    def _is_ready(self, user: str) -> bool:
        servers = self._api("GET", f"users/{user}")["servers"]
        return bool(servers and servers[""]["ready"])

    def _answers(self) -> bool:
        try:
            self._api("GET", "users")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def _api(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}hub/api/{path}",
            method=method,
            data=json.dumps(body or {}).encode() if method == "POST" else None,
            headers={"Authorization": f"token {ADMIN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            text = response.read()
        return json.loads(text) if text else None
