"""A real Kernel Gateway: the kernels are its children, and the Jupyter server in front has none of its own."""

import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from tests.ports import free_port
from tests.programs import Program

KEY = "a-key-of-the-gateway"


class KernelGateway:
    def __init__(self, home: Path) -> None:
        home.mkdir()
        self.port = free_port()
        command = [
            *(sys.executable, "-m", "kernel_gateway", f"--KernelGatewayApp.port={self.port}"),
            *("--KernelGatewayApp.ip=127.0.0.1", f"--KernelGatewayApp.auth_token={KEY}"),
            *("--KernelGatewayApp.port_retries=0", "--JupyterWebsocketPersonality.list_kernels=True"),
        ]
        # A machine of its own: it has neither the server's directories nor the model's address.
        variables = {"HOME": str(home), "JUPYTER_RUNTIME_DIR": str(home / "runtime")}
        self._program = Program(command, home / "gateway.log", home, variables)
        self._program.wait_until(self._answers, "the gateway to answer")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._program.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def arguments(self, url: str | None = None) -> list[str]:
        """What makes a Jupyter server use this gateway, at its own address or through somebody else's."""
        return [f"--gateway-url={url or self.url}", f"--GatewayClient.auth_token={KEY}"]

    def api(self, method: str, path: str) -> None:
        """What somebody does at the gateway, behind the server's back."""
        headers = {"Authorization": f"token {KEY}"}
        url = f"{self.url}/{path}"
        with urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers), timeout=60):
            pass

    def _answers(self) -> bool:
        try:
            self.api("GET", "api/kernelspecs")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True
