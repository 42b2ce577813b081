"""What every test shares: no paid model can be reached, nothing is read from or written to the user's home, kernels get
ports that nobody else takes, an interrupt is one also for a shell's background job, and no example of Hypothesis fails
because the machine is busy."""

import os
import signal
import tempfile
from pathlib import Path

import certifi
import pytest
from hypothesis import HealthCheck, settings

_LEAKS = ("OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_", "LANGSMITH_", "LANGCHAIN_", "AGENT_KERNEL_", "JUPYTER", "JPY_")
_KEPT = {"AGENT_KERNEL_BROWSER"}


def _private_environment(home: Path) -> None:
    """Before any test module is imported, because Jupyter reads its directories at import."""
    for name in list(os.environ):
        if name.startswith(_LEAKS) and name not in _KEPT:
            del os.environ[name]
    os.environ.update(
        HOME=str(home),
        JUPYTER_CONFIG_DIR=str(home / "config"),
        JUPYTER_DATA_DIR=str(home / "data"),
        JUPYTER_RUNTIME_DIR=str(home / "runtime"),
        JUPYTER_PLATFORM_DIRS="1",
        IPYTHONDIR=str(home / "ipython"),
        PYDEVD_DISABLE_FILE_VALIDATION="1",
        NO_PROXY="127.0.0.1,localhost",
        no_proxy="127.0.0.1,localhost",
    )
    # Every client of a model reads the authorities that it trusts. One is enough where nothing outside is asked.
    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----\n")
    authority = home / "authority.pem"
    authority.write_text(first + end, encoding="utf-8")
    os.environ["SSL_CERT_FILE"] = str(authority)


_home = tempfile.TemporaryDirectory(prefix="agent-kernel-tests-", ignore_cleanup_errors=True)
_private_environment(Path(_home.name))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As `make test &` in a script has it, and every program that it starts. Python would not raise `KeyboardInterrupt`.
    signal.signal(signal.SIGINT, signal.default_int_handler)


settings.register_profile(
    "busy machine", settings.default, max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A server outlives a test, so all tests of its module run in its event loop."""
    for item in items:
        if isinstance(item, pytest.Function) and "servers" in item.fixturenames:
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


def pytest_configure() -> None:
    from tests.ports import KernelPorts

    KernelPorts.instance()


def pytest_unconfigure(config: pytest.Config) -> None:
    _home.cleanup()
