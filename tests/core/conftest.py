"""Fixtures of the core's tests."""

from collections.abc import Iterator

import pytest

from agent_kernel.models.client import CERTIFICATE_SETTINGS
from tests.core.runtime.runtime_fixtures import stages

__all__ = ["stages"]


@pytest.fixture(scope="session", autouse=True)
def no_authorities_of_the_machine() -> Iterator[None]:
    """Each client would read them again, for a tenth of a second."""
    with pytest.MonkeyPatch.context() as environment:
        for name in CERTIFICATE_SETTINGS:
            environment.delenv(name, raising=False)
        yield
