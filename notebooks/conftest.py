"""`pytest --nbval notebooks`: with no key, with no network, and the same on every machine."""

import os

import pytest

_OF_PYTEST = {"AGENT_KERNEL_REPLAY", "AGENT_KERNEL_APPROVE"}


def pytest_configure(config: pytest.Config) -> None:
    # replaying.ipynb shows what `--on-change warn` does, which is a warning of pytest, and those are errors here.
    config.addinivalue_line("filterwarnings", "ignore::agent_kernel.testing.pytest_plugin.RecordingChanged")
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "AGENT_KERNEL_", "JPY_")) and name not in _OF_PYTEST:
            del os.environ[name]  # the kernels inherit what is left
    # The first import on a machine builds a font cache and says so on stderr, which would stand in a cell's output.
    import matplotlib.font_manager  # noqa: F401
