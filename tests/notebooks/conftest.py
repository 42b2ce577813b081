"""Kernels for the executor: one that several tests share, and fresh ones for tests that leave something behind."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.notebooks.kernel import TestKernel

INSTALL = '__import__("agent_kernel.notebook", fromlist=["install"]).install()'


@pytest.fixture
def start_kernel() -> Iterator[Callable[..., TestKernel]]:
    started: list[TestKernel] = []

    def start(**env: str) -> TestKernel:
        kernel = TestKernel({**os.environ, **env})
        started.append(kernel)
        return kernel

    yield start
    for kernel in started:
        kernel.close()


@pytest.fixture
def kernel(start_kernel: Callable[..., TestKernel]) -> TestKernel:
    return start_kernel()


@pytest.fixture
def reset_kernel(shared_kernel: TestKernel) -> TestKernel:
    """The shared kernel, which has forgotten the tests before."""
    shared_kernel.forget()
    return shared_kernel


@pytest.fixture(scope="module")
def shared_kernel() -> Iterator[TestKernel]:
    """A kernel that a server has let its requests into."""
    kernel = TestKernel(dict(os.environ))
    kernel.run(INSTALL, silent=True)
    yield kernel
    kernel.close()
