"""What `agent-kernel doctor` says of the JupyterLab extension."""

import json
from pathlib import Path

import jupyter_core.paths
import pytest

from agent_kernel.doctor import examine
from agent_kernel.models.checkup import Finding


def found(words: str) -> list[Finding]:
    return [finding for finding in examine({}, ask=False) if words in finding.text]


def test_an_extension_that_is_there_and_enabled_is_well() -> None:
    assert [finding.mark for finding in found("The JupyterLab extension is enabled")] == ["ok"]


@pytest.mark.parametrize("name", ["agent-kernel", "agent-kernel:keys"])
def test_a_disabled_extension_is_told_with_what_enables_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "labconfig" / "page_config.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"disabledExtensions": {name: True}}))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    (finding,) = found("extension is disabled")
    assert finding.mark == "note", "all else works without it"
    assert finding.advice == f"Run: jupyter labextension enable {name}"


def test_a_missing_extension_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jupyter_core.paths, "ENV_JUPYTER_PATH", [])
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    (finding,) = found("does not find the extension agent-kernel")
    assert finding.mark == "note"
