"""The scripts of the demos' recordings: a module for each notebook that has a recording of its own."""

import importlib

from agent_kernel.models.cassette import Cassette

NAMES = ("cleaning", "tools", "policies", "plots", "pipeline", "when-things-break", "replaying")
"""The notebooks by their files' names, without the suffix."""


def recording_of(name: str) -> Cassette:
    """The `RECORDING` of a notebook's script."""
    recording = importlib.import_module(f"tests.demos.stories.{name.replace('-', '_')}").RECORDING
    assert isinstance(recording, Cassette)
    return recording
