"""A real Jupyter server with the extension, real kernels, and a fake model behind a real socket.

`tests/security` takes over all that `__all__` names.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from jupyter_server.serverapp import ServerApp
from pytest_jupyter.jupyter_core import (
    echo_kernel_spec,
    jp_config_dir,
    jp_data_dir,
    jp_env_config_path,
    jp_env_jupyter_path,
    jp_environ,
    jp_home_dir,
    jp_kernel_dir,
    jp_runtime_dir,
    jp_system_config_path,
    jp_system_jupyter_path,
)
from pytest_jupyter.jupyter_server import (
    jp_argv,
    jp_auth_header,
    jp_base_url,
    jp_configurable_serverapp,
    jp_http_port,
    jp_logging_stream,
    jp_nbconvert_templates,
    jp_root_dir,
    jp_serverapp,
    jp_web_app,
    jp_ws_fetch,
)
from pytest_jupyter.jupyter_server import jp_fetch as hasty_fetch
from pytest_jupyter.pytest_tornasync import http_server, http_server_client, http_server_port

from agent_kernel.testing import FakeOpenAI
from agent_kernel_server.app import AgentKernelServer
from tests.server.client import Api, Client, Fetch, Kernel, OpenChannel, OpenSocket
from tests.watchdog import watched

__all__ = [
    "api",
    "client",
    "echo_kernel_spec",
    "extension",
    "extension_traits",
    "hasty_fetch",
    "http_server",
    "http_server_client",
    "http_server_port",
    "jp_argv",
    "jp_asyncio_loop",
    "jp_auth_header",
    "jp_base_url",
    "jp_config_dir",
    "jp_configurable_serverapp",
    "jp_data_dir",
    "jp_env_config_path",
    "jp_env_jupyter_path",
    "jp_environ",
    "jp_fetch",
    "jp_home_dir",
    "jp_http_port",
    "jp_kernel_dir",
    "jp_logging_stream",
    "jp_nbconvert_templates",
    "jp_root_dir",
    "jp_runtime_dir",
    "jp_server_config",
    "jp_serverapp",
    "jp_system_config_path",
    "jp_system_jupyter_path",
    "jp_web_app",
    "jp_ws_fetch",
    "kernel",
    "loop_watchdog",
    "model",
    "server_traits",
]


@pytest_asyncio.fixture
async def jp_asyncio_loop() -> asyncio.AbstractEventLoop:
    """The server runs in the test's own loop."""
    return asyncio.get_running_loop()


@pytest.fixture
def model() -> Iterator[FakeOpenAI]:
    """The paid model's double; a test writes its turns with `model.add`."""
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def extension_traits() -> dict[str, Any]:
    """Configuration of the extension that a test may override."""
    return {}


@pytest.fixture
def server_traits() -> dict[str, Any]:
    """Configuration of the Jupyter server that a test may override."""
    return {}


@pytest.fixture
def jp_server_config(
    model: FakeOpenAI,
    extension_traits: dict[str, Any],
    server_traits: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:
    for name, value in model.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AGENT_KERNEL_SERVER_PID", "")
    return {
        "ServerApp": {"jpserver_extensions": {"agent_kernel_server": True}, **server_traits},
        "KernelRestarter": {"time_to_dead": 0.3},  # seconds between two looks whether a kernel has died
        "AgentKernelServer": extension_traits,
    }


@pytest.fixture
def extension(
    jp_serverapp: ServerApp, jp_asyncio_loop: asyncio.AbstractEventLoop, http_server: Any
) -> Iterator[AgentKernelServer]:
    """The extension of a server that has started. At the end the server stops as it does in life."""
    jp_asyncio_loop.run_until_complete(jp_serverapp.extension_manager.start_all_extensions())
    yield jp_serverapp.extension_manager.extension_points["agent_kernel_server"].app
    jp_asyncio_loop.run_until_complete(jp_serverapp._cleanup())
    jp_serverapp.kernel_manager.context.destroy()
    ServerApp.clear_instance()


@pytest.fixture(autouse=True)
def loop_watchdog(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nothing that a server does may hold up its event loop, in any test."""
    if "extension" not in request.fixturenames:
        yield
        return
    request.getfixturevalue("extension")
    with watched(request.getfixturevalue("jp_asyncio_loop")) as watch:
        yield
    watch.check()


@pytest.fixture
def jp_fetch(hasty_fetch: Fetch) -> Fetch:
    """pytest-jupyter's own gives an answer 20 s, in which a busy machine may not start a kernel."""
    return partial(hasty_fetch, request_timeout=60)


@pytest.fixture
def api(extension: AgentKernelServer, jp_fetch: Fetch) -> Api:
    return Api(jp_fetch)


@pytest_asyncio.fixture
async def client(extension: AgentKernelServer, jp_ws_fetch: OpenSocket) -> AsyncIterator[OpenChannel]:
    """Opens channels: `await client(conversation_id)`."""
    opened: list[Client] = []

    async def open_client(conversation_id: str, **options: Any) -> Client:
        socket = await jp_ws_fetch("agent-kernel", "api", "conversations", conversation_id, "channel", **options)
        opened.append(Client(socket))
        return opened[-1]

    yield open_client
    for one in opened:
        await one.close()


@pytest_asyncio.fixture
async def kernel(extension: AgentKernelServer, jp_fetch: Fetch) -> AsyncIterator[Kernel]:
    """A running kernel that the server started."""
    answer = await jp_fetch("api", "kernels", method="POST", body=json.dumps({"name": "python3"}))
    kernel_id = json.loads(answer.body)["id"]
    assert extension.serverapp is not None
    one = Kernel(kernel_id, extension.serverapp.kernel_manager)
    yield one
    await one.close()
