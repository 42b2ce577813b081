"""The second of imports that an agent in this process needs: made beforehand, and only where there will be one."""

import os
from collections.abc import Callable

import pytest

from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

LOAD = "%load_ext agent_kernel\nimport sys, threading"
WARMING = "[one.join(60) for one in threading.enumerate() if one.name == 'agent-kernel-warm-up']"
HEAVY = "sorted({'langgraph', 'openai'} & set(sys.modules))"


def test_a_notebook_without_such_a_server_has_its_imports_before_its_first_run(
    start_kernel: Callable[..., TestKernel],
) -> None:
    kernel = start_kernel()
    kernel.run(f"{LOAD}\nwaited = len({WARMING})", allow_stdin=True)
    assert kernel.value("waited") == "1"
    assert kernel.value(HEAVY) == "['langgraph', 'openai']"


def test_a_kernel_whose_server_runs_the_agent_imports_nothing_for_it(start_kernel: Callable[..., TestKernel]) -> None:
    kernel = start_kernel(AGENT_KERNEL_SERVER_PID=str(os.getpid()))
    kernel.run(LOAD, allow_stdin=True)
    assert kernel.value(WARMING) == "[]"
    assert kernel.value(HEAVY) == "[]"


def test_a_first_run_waits_for_no_server_where_nothing_hints_at_a_gateway(
    start_kernel: Callable[..., TestKernel],
) -> None:
    kernel = start_kernel()
    kernel.run("import agent_kernel.notebook.hosts.discovery as discovery; discovery.ASK_SECONDS = 3600")
    kernel.run(f"{LOAD}\nfrom agent_kernel.notebook.kernel.state import kernel_state", allow_stdin=True)
    kernel.run("host = discovery.host_for(kernel_state(), None)", allow_stdin=True)
    assert kernel.value("type(host).__name__") == "'EmbeddedHost'"
