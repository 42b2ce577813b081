"""Other shapes of Jupyter: each test starts what it is about, as programs of their own."""

import pytest

from tests.e2e.conftest import browser, model, page, pytest_runtest_makereport, shared_model

__all__ = ["browser", "model", "page", "pytest_runtest_makereport", "shared_model"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The full matrix is run where it is asked for, with `-m`."""
    if config.getoption("-m"):
        return
    full = [item for item in items if item.get_closest_marker("shapes_full")]
    if full:
        config.hook.pytest_deselected(items=full)
        items[:] = [item for item in items if item not in full]
