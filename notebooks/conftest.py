"""`pytest --nbval notebooks`: with no key, with no network, and the same on every machine."""

import os
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "AGENT_KERNEL_", "JPY_")):
            del os.environ[name]  # the kernels inherit what is left
    if getattr(config.option, "nbval_sanitize_with", None) is None:
        config.option.nbval_sanitize_with = str(Path(__file__).with_name("nbval.cfg"))
    # The first import on a machine builds a font cache and says so on stderr, which would stand in a cell's output.
    import matplotlib.font_manager  # noqa: F401
