"""Kernels for the executor: those that all tests share, and fresh ones where the start is the subject."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.notebooks.headless import SETUP
from tests.notebooks.kernel import TestKernel

INSTALL = '__import__("agent_kernel.notebook", fromlist=["install"]).install()'
SERVED = {"AGENT_KERNEL_SERVER_PID": str(os.getpid())}
"""The environment of a kernel whose server is the test."""


@pytest.fixture
def start_kernel() -> Iterator[Callable[..., TestKernel]]:
    """For a kernel that differs from others in its environment, or that ends."""
    started: list[TestKernel] = []

    def start(**env: str) -> TestKernel:
        kernel = TestKernel({**os.environ, **env})
        started.append(kernel)
        return kernel

    yield start
    for kernel in started:
        kernel.close()


@pytest.fixture(scope="package")
def package_kernel() -> Iterator[TestKernel]:
    """A kernel that a server has let its requests into."""
    kernel = TestKernel(dict(os.environ))
    kernel.run(INSTALL, silent=True)
    yield kernel
    kernel.close()


@pytest.fixture(scope="module")
def shared_kernel(package_kernel: TestKernel) -> TestKernel:
    """The same for all tests of a module, which has forgotten other modules."""
    package_kernel.forget()
    return package_kernel


@pytest.fixture
def kernel(shared_kernel: TestKernel) -> TestKernel:
    """The shared kernel, which has forgotten the tests before."""
    shared_kernel.forget()
    return shared_kernel


@pytest.fixture
def scripted(kernel: TestKernel) -> TestKernel:
    kernel.run(SETUP)
    return kernel


@pytest.fixture(scope="package")
def shared_served_kernel() -> Iterator[TestKernel]:
    kernel = TestKernel({**os.environ, **SERVED})
    yield kernel
    kernel.close()


@pytest.fixture
def served(shared_served_kernel: TestKernel) -> TestKernel:
    """A kernel whose server is the test, with the extension loaded by its first cell."""
    shared_served_kernel.forget()
    shared_served_kernel.run("%load_ext agent_kernel\nimport agent_kernel as ak")
    return shared_served_kernel
