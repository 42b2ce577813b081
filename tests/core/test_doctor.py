"""What `agent-kernel doctor` says of the machine, of Jupyter and its extensions, and of the models."""

import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

import jupyter_core.paths
import pytest

from agent_kernel import cli, doctor
from agent_kernel.doctor import examine
from agent_kernel.models import checkup
from agent_kernel.models.checkup import Finding
from agent_kernel.protocol.calls import WallsFound
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.testing.wire.reply import Reply, failure


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


def findings(words: str) -> list[Finding]:
    return [finding for finding in examine({}, ask=False) if words in finding.text]


def test_an_extension_that_is_there_and_enabled_is_well() -> None:
    assert [finding.mark for finding in findings("The JupyterLab extension is enabled")] == ["ok"]


@pytest.mark.parametrize("name", ["agent-kernel", "agent-kernel:keys"])
def test_a_disabled_extension_is_told_with_what_enables_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "labconfig" / "page_config.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"disabledExtensions": {name: True}}))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    (finding,) = findings("extension is disabled")
    assert finding.mark == "note", "all else works without it"
    assert finding.advice == f"Run: jupyter labextension enable {name}"


def test_a_missing_extension_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jupyter_core.paths, "ENV_JUPYTER_PATH", [])
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    (finding,) = findings("does not find the extension agent-kernel")
    assert finding.mark == "note"


READY = call("ready")


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jupyter's configuration directory."""
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_CONFIG_PATH", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_models(environ: dict[str, str], *, ask: bool = True) -> list[Finding]:
    """The findings after those on the installation."""
    whole = examine(environ, ask=ask)
    (log,) = [index for index, one in enumerate(whole) if "log" in one.text.split()]
    return whole[log + 1 :]


def write_config(config: Path, text: str) -> None:
    (config / "jupyter_server_config.py").write_text(text)


def endpoints(config: Path, **fields: dict[str, Any]) -> None:
    write_config(config, f"c.AgentKernelServer.endpoints = {fields!r}")


def test_where_no_model_is_configured_it_says_what_to_set() -> None:
    (found,) = of_models({})
    assert found.mark == "note"
    assert "OPENAI_API_KEY or ANTHROPIC_API_KEY" in found.advice
    assert "agent-kernel demo" in found.advice


def test_a_model_that_calls_its_tool_is_well_and_it_is_said_that_it_was_asked() -> None:
    with FakeOpenAI([READY]) as server:
        default, works = of_models(server.environment())
    assert default == Finding("ok", "The default model is fake. AGENT_KERNEL_MODEL names it.")
    assert works == Finding("ok", "openai: fake answers and calls tools. It was asked once, for a few tokens.")
    (request,) = server.requests
    assert [tool["function"]["name"] for tool in request.body["tools"]] == ["ready"]
    assert len(json.dumps(request.body)) < 600


def test_what_a_server_lacks_that_passes_calls_on_as_text_is_said() -> None:
    with FakeOpenAI([say('<tool_call>{"name": "ready", "arguments": {}}</tool_call>')]) as server:
        found = of_models(server.environment())[1]
    assert found.mark == "MEND"
    assert found.text.startswith("openai: The model wrote a call of ready as text, so it did not run. ")
    assert "--enable-auto-tool-choice" in found.text


def test_a_key_that_is_refused_is_to_be_mended_and_not_shown() -> None:
    with FakeOpenAI([failure(401, "Incorrect API key provided: sk-fake-0123456789abcdef")]) as server:
        found = of_models(server.environment())[1]
    assert found.mark == "MEND"
    assert "Set OPENAI_API_KEY to a key that may use fake" in found.text
    assert "0123456789" not in found.text


def test_a_silent_server_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "ANSWER_SECONDS", 0.05)
    with FakeOpenAI([Reply(hang_after=0)]) as server:
        assert "did not answer within 0.05 s" in of_models(server.environment())[1].text


def test_a_local_context_that_cuts_the_tools_off_is_warned_of() -> None:
    pages: dict[str, Any] = {
        "/v1/models": {"data": [{"id": "fake", "owned_by": "library"}]},
        "/api/ps": {"models": [{"model": "fake", "context_length": 4096}]},
        "/api/show": {"capabilities": ["completion", "tools"]},
    }
    with FakeOpenAI([READY], pages=pages) as server:
        found = of_models(server.environment())
    assert found[-1].mark == "note"
    assert "the context of fake has 4,096 tokens" in found[-1].text
    assert "OLLAMA_CONTEXT_LENGTH" in found[-1].advice


def test_the_endpoints_of_the_servers_configuration_are_asked_but_for_one_with_a_mistake(config: Path) -> None:
    with FakeOpenAI([READY]) as lab, FakeOpenAI([READY]) as named:
        own = {"base_url": named.url, "models": ["m*", "qwen3"]}
        endpoints(config, lab={"base_url": lab.url}, named=own, odd={"base_url": lab.url, "api": "soap"})
        *found, broken = of_models({})
    assert [one.text.partition(" answers")[0] for one in found] == ["lab: lab/fake", "named: named/qwen3"]
    assert broken.mark == "MEND"
    assert "api must be one of" in broken.text
    assert named.requests[0].body["model"] == "qwen3"


@pytest.mark.parametrize(
    ("text", "said"),
    [("c.AgentKernelServer.endpoints = 7", "is not a dictionary"), ("1 / 0", "can't be read: ZeroDivisionError")],
)
def test_a_configuration_that_can_not_be_read_is_named(config: Path, text: str, said: str) -> None:
    write_config(config, text)
    found = of_models({})[0]
    assert found.mark == "MEND"
    assert said in found.text


def test_the_command_line_knows_offline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeOpenAI() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        cli.main(["doctor", "--offline"])
    assert "was not asked" in capsys.readouterr().out
