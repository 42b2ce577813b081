"""The scripts of the demos' recordings: a module for each notebook that has a recording of its own."""

import importlib

from tests.demos.script import Script

NAMES = ("fixing", "cleaning", "tools", "policies", "plots", "pipeline", "when-things-break", "replaying")
"""The notebooks by their files' names, without the suffix."""


def script_of(name: str) -> Script:
    """The `SCRIPT` of a notebook."""
    script = importlib.import_module(f"tests.demos.stories.{name.replace('-', '_')}").SCRIPT
    assert isinstance(script, Script)
    return script
