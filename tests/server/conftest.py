"""A real Jupyter server with the extension, real kernels, and a fake model behind a real socket.

The tests of a module share them as long as they want the same configuration; between two tests they are made to forget.
A test that is about a start or an end, or leaves something behind, has `@pytest.mark.usefixtures("fresh")`, which gives
it a server of its own, or `fresh_kernel` in place of `kernel`. Fixtures that are coroutines need `loop_scope="module"`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio

from agent_kernel.testing import FakeOpenAI
from tests.server.cells import ASK, Notebook, OpenPage
from tests.server.client import Api, Client, Kernel, OpenChannel, open_notebook
from tests.server.serving import Server, Servers, Wanted
from tests.waiting import until
from tests.watchdog import watched


@pytest.fixture(scope="module")
def model_service() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as service:
        yield service


@pytest.fixture
def model(model_service: FakeOpenAI) -> Iterator[FakeOpenAI]:
    """The paid model's double; a test writes its turns with `model.add`."""
    model_service.clear()
    yield model_service
    model_service.assert_consumed()


@pytest.fixture
def extension_traits() -> dict[str, Any]:
    """Configuration of the extension that a test may override."""
    return {}


@pytest.fixture
def server_traits() -> dict[str, Any]:
    """Configuration of the Jupyter server that a test may override."""
    return {}


@pytest.fixture
def fresh() -> None:
    """Asks for a server that no other test has."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Servers]:
    async with Servers(partial(tmp_path_factory.mktemp, "server")) as servers:
        yield servers


@pytest_asyncio.fixture(loop_scope="module")
async def server(
    servers: Servers,
    model: FakeOpenAI,
    extension_traits: dict[str, Any],
    server_traits: dict[str, Any],
    request: pytest.FixtureRequest,
) -> AsyncIterator[Server]:
    """A running server. Nothing that it does may hold up its event loop, in any test."""
    is_fresh = "fresh" in request.fixturenames
    if is_fresh:
        await servers.stop()
    server = await servers.get(Wanted(server_traits, extension_traits, model.environment()))
    with watched(asyncio.get_running_loop()) as watch:
        yield server
    await (servers.stop() if is_fresh else server.forget())
    watch.check()


@pytest.fixture
def api(server: Server) -> Api:
    return Api(server.fetch)


@pytest_asyncio.fixture(loop_scope="module")
async def client(server: Server) -> AsyncIterator[OpenChannel]:
    """Opens channels: `await client(conversation_id)`."""
    opened: list[Client] = []

    async def open_client(conversation_id: str, **options: Any) -> Client:
        path = ("agent-kernel", "api", "conversations", conversation_id, "channel")
        opened.append(Client(await server.open_socket(*path, **options)))
        return opened[-1]

    yield open_client
    for one in opened:
        await one.close()


@pytest_asyncio.fixture(loop_scope="module")
async def kernel(server: Server) -> Kernel:
    """A running kernel that the server started, which has forgotten the tests before."""
    return await server.kernel()


@pytest_asyncio.fixture(loop_scope="module")
async def loaded(kernel: Kernel) -> Kernel:
    """The kernel, with its magics."""
    await kernel.run("%load_ext agent_kernel")
    return kernel


@pytest.fixture
def analysis(server: Server) -> Path:
    """A saved notebook with a prompt."""
    path = server.root / "folder" / "analysis.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(ASK)]), path)
    return path


@pytest_asyncio.fixture(loop_scope="module")
async def open_kernel(server: Server, loaded: Kernel, analysis: Path) -> Kernel:
    """The kernel of that notebook's session. No page is connected."""
    await open_notebook(server.fetch, "folder/analysis.ipynb", loaded.kernel_id)
    return loaded


@pytest_asyncio.fixture(loop_scope="module")
async def fresh_kernel(server: Server) -> AsyncIterator[Kernel]:
    """A running kernel that the server has just started."""
    one = await server.start_kernel()
    yield one
    await one.close()


@pytest_asyncio.fixture(loop_scope="module")
async def notebook(server: Server, api: Api, model: FakeOpenAI, kernel: Kernel) -> Notebook:
    one = Notebook(api, model, kernel, server.root / "cells.ipynb")
    one.write()
    await open_notebook(server.fetch, "cells.ipynb", kernel.kernel_id)
    return one


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(server: Server) -> AsyncIterator[Callable[..., Awaitable[OpenPage]]]:
    opened: list[OpenPage] = []

    async def open_it(*paths: str, **more: Any) -> OpenPage:
        opened.append(OpenPage(await server.open_socket("agent-kernel", "api", "pages")))
        known = len(server.service.pages._pages)
        await opened[-1].opens(*paths, **more)
        await until(lambda: len(server.service.pages._pages) == known + 1)
        return opened[-1]

    yield open_it
    for page in opened:
        await page.opens()  # for good: a page that leaves with a notebook may be loading again
        await page.leave()
