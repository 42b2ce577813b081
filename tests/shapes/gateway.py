"""A real Kernel Gateway: the kernels are its children, and the Jupyter server in front has none of its own."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from tests.e2e.lab import wait_until

KEY = "a-key-of-the-gateway"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class KernelGateway:
    def __init__(self, home: Path) -> None:
        home.mkdir()
        self.port = free_port()
        self.log = home / "gateway.log"
        self._output = self.log.open("wb")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kernel_gateway", f"--KernelGatewayApp.port={self.port}"),
                *("--KernelGatewayApp.ip=127.0.0.1", f"--KernelGatewayApp.auth_token={KEY}"),
                *("--KernelGatewayApp.port_retries=0", "--JupyterWebsocketPersonality.list_kernels=True"),
            ],
            # A machine of its own: it has neither the server's directories nor the model's address.
            env={**os.environ, "HOME": str(home), "JUPYTER_RUNTIME_DIR": str(home / "runtime")},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            cwd=home,
        )
        try:
            wait_until(self._answers, "the gateway to answer", 60)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._output.close()

    def arguments(self) -> list[str]:
        """What makes a Jupyter server use this gateway."""
        return [f"--gateway-url=http://127.0.0.1:{self.port}", f"--GatewayClient.auth_token={KEY}"]

    def api(self, method: str, path: str) -> None:
        """What somebody does at the gateway, behind the server's back."""
        headers = {"Authorization": f"token {KEY}"}
        url = f"http://127.0.0.1:{self.port}/{path}"
        with urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers), timeout=30):
            pass

    def _answers(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()[-4000:]
        try:
            self.api("GET", "api/kernelspecs")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True
