"""Other environments of Jupyter: each test starts what it is about, as programs of their own."""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import browser, model, pytest_runtest_makereport, shared_model
from tests.e2e.conftest import fresh_page as page
from tests.e2e.lab import LabServer
from tests.environments.cells import Cells
from tests.environments.embedded import ANSWER, IMPORTS
from tests.environments.gateway import KernelGateway
from tests.environments.versions import VERSIONS, python_with
from tests.notebooks.kernel import TestKernel

__all__ = ["browser", "model", "page", "pytest_runtest_makereport", "shared_model"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelGateway]:
    with KernelGateway(tmp_path_factory.mktemp("far") / "away") as gateway:
        yield gateway


@pytest.fixture
def cells(front: LabServer, request: pytest.FixtureRequest) -> Iterator[Cells]:
    """A notebook on the server that the test's module puts in front of the gateway."""
    cells = Cells.of_notebook(front, f"{request.node.name}.ipynb")
    cells.run("%load_ext agent_kernel\nimport agent_kernel as ak")
    yield cells
    cells.close()


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    asked: str = request.param
    return asked


@pytest.fixture(scope="module")
def shared_kernel(version: str) -> Iterator[TestKernel]:
    """The graph is imported once for each version, which takes longer than the tests."""
    kernel = TestKernel(dict(os.environ), python_with(version))
    assert kernel.value("__import__('ipykernel').__version__") == repr(version)
    kernel.run(IMPORTS)
    kernel.run("from langgraph.graph import StateGraph")
    yield kernel
    kernel.close()


@pytest.fixture
def kernel(shared_kernel: TestKernel) -> TestKernel:
    shared_kernel.listeners.clear()
    shared_kernel.run("%reset -f")
    shared_kernel.run(IMPORTS + ANSWER)
    return shared_kernel
