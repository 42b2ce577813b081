"""Other environments of Jupyter: each test starts what it is about, as programs of their own."""

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import browser, model, pytest_runtest_makereport, shared_model
from tests.e2e.conftest import fresh_page as page
from tests.e2e.lab import LabServer
from tests.environments.cells import Cells
from tests.environments.gateway import KernelGateway

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
