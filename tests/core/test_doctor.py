"""What `agent-kernel doctor` says of the machine."""

import importlib.metadata
import importlib.util
import json
from pathlib import Path
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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("jupyter_server_config.json", '{"ServerApp": {"jpserver_extensions": {"agent_kernel_server": false}}}'),
        ("jupyter_server_config.py", "c.ServerApp.jpserver_extensions = {'agent_kernel_server': False}"),
        ("jupyter_server_config.py", "c.ServerApp.jpserver_extensions.update({'agent_kernel_server': False})"),
    ],
)
def test_doctor_says_that_the_server_extension_is_disabled_and_what_enables_it(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> tuple[str, str, str]:
        server = "The Jupyter server extension is"
        (one,) = [one for one in doctor.examine({}, ask=False) if one.text.startswith(server)]
        return one.mark, one.text, one.advice

    assert told()[:2] == ("ok", "The Jupyter server extension is enabled.")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path))
    (tmp_path / name).write_text(text)
    run = "jupyter server extension enable agent_kernel_server"
    advice = f"Run: {run}, and let no jupyter_server_config.py say otherwise."
    assert told() == ("MEND", "The Jupyter server extension is not enabled here.", advice)


def test_doctor_says_what_others_that_are_installed_want(monkeypatch: pytest.MonkeyPatch) -> None:
    version, find_spec = importlib.metadata.version, importlib.util.find_spec

    def found(name: str, *more: Any) -> Any:
        return object() if name == "jupytext" else find_spec(name, *more)

    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.30.0" if name == "mcp" else version(name))
    monkeypatch.setattr(importlib.util, "find_spec", found)
    told = [f"{finding.text} {finding.advice}" for finding in doctor.examine({}, ask=False) if finding.mark == "note"]
    for words in ("mcp 1.30.0. MCP needs version 2", 'Put custom_cell_magics = "agent" into jupytext.toml'):
        assert any(words in one for one in told), told


def test_doctor_says_which_mcp_servers_are_configured_and_which_can_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    servers = {"files": {"command": "npx", "env": {"KEY": "${OF_FILES}"}}, "broken": {"url": "ftp://x"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers | {"keyless": {"command": "${NO_SUCH}"}}}))
    told = [
        one
        for one in doctor.examine({"OF_FILES": "sk-of-files"}, ask=False)
        if "mcp" in f"{one.text} {one.advice}".lower()
    ]
    configured = "MCP servers are configured: files."
    assert configured in [one.text for one in told if one.mark == "ok"]
    wrong = [one for one in told if one.mark == "MEND"]
    assert [("broken" in one.text, "keyless" in one.text) for one in wrong] == [(True, False), (False, True)]
    assert all(f"your own file is {tmp_path / 'mcp.json'}" in one.advice for one in wrong)
    assert "sk-of-files" not in repr(told)
    (tmp_path / "mcp.json").write_text("{")
    assert any(one.mark == "MEND" and "mcp.json" in one.text for one in doctor.examine({}, ask=False))
