"""What `agent-kernel doctor` says of the machine."""

import importlib.metadata
import importlib.util
from typing import Any

import pytest

from agent_kernel import doctor
from agent_kernel.protocol.calls import WallsFound


@pytest.mark.parametrize(
    ("found", "mark", "text"),
    [
        (WallsFound("bubblewrap"), "ok", "Shell commands run inside walls: bubblewrap."),
        (
            WallsFound("none", "Landlock: ABI 3"),
            "note",
            "Shell commands of the agent run without walls: Landlock: ABI 3.",
        ),
    ],
)
def test_doctor_names_the_walls(found: WallsFound, mark: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "found_walls", lambda: found)
    assert (mark, text) in [(finding.mark, finding.text) for finding in doctor.examine({}, ask=False)]


def test_doctor_says_what_others_that_are_installed_want(monkeypatch: pytest.MonkeyPatch) -> None:
    version, find_spec = importlib.metadata.version, importlib.util.find_spec

    def found(name: str, *more: Any) -> Any:
        return object() if name == "jupytext" else find_spec(name, *more)

    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.30.0" if name == "mcp" else version(name))
    monkeypatch.setattr(importlib.util, "find_spec", found)
    told = [f"{finding.text} {finding.advice}" for finding in doctor.examine({}, ask=False) if finding.mark == "note"]
    for words in ("mcp 1.30.0. MCP needs version 2", 'Put custom_cell_magics = "agent" into jupytext.toml'):
        assert any(words in one for one in told), told
