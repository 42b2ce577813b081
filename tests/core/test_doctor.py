"""What `agent-kernel doctor` says of the machine, of Jupyter and its extensions, and of the models."""

import json
from pathlib import Path

import pytest

from agent_kernel import cli
from agent_kernel.doctor import examine
from agent_kernel.models import checkup
from agent_kernel.models.checkup import Finding
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.testing.fake_service import Scripted
from agent_kernel.testing.wire.reply import Reply, failure


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jupyter's configuration directory."""
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_CONFIG_PATH", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def findings(words: str, **environ: str) -> list[tuple[str, str, str]]:
    """The mark, the text and the advice of each finding that has these words."""
    found = [(one.mark, one.text, one.advice) for one in examine(environ, ask=False)]
    return [one for one in found if words.lower() in f"{one[1]} {one[2]}".lower()]


def test_a_server_extension_that_is_disabled_is_said_with_what_enables_it(config: Path) -> None:
    server = "The Jupyter server extension is"
    assert findings(server)[0][:2] == ("ok", f"{server} enabled.")
    text = "c.ServerApp.jpserver_extensions.update({'agent_kernel_server': False})"
    (config / "jupyter_server_config.py").write_text(text)
    run = "jupyter server extension enable agent_kernel_server"
    advice = f"Run: {run}, and let no jupyter_server_config.py say otherwise."
    assert findings(server) == [("MEND", f"{server} not enabled here.", advice)]


def test_doctor_says_which_mcp_servers_are_configured_and_which_can_not_be(config: Path) -> None:
    file = config / "mcp.json"
    good, keyless = {"command": "npx", "env": {"KEY": "${OF_FILES}"}}, {"command": "${NO_SUCH}"}
    file.write_text(json.dumps({"mcpServers": {"files": good, "broken": {"url": "ftp://x"}, "keyless": keyless}}))
    told = findings("mcp", OF_FILES="sk-of-files")
    assert "MCP servers are configured: files." in [text for mark, text, _ in told if mark == "ok"]
    broken, without_key = [one for one in told if one[0] == "MEND"]
    assert ("broken" in broken[1], "keyless" in without_key[1]) == (True, True)
    assert all(f"your own file is {file}" in one[2] for one in (broken, without_key))
    assert "sk-of-files" not in repr(told)
    file.write_text("{")
    assert "MEND" in [one[0] for one in findings("mcp.json")]


READY = call("ready")


def of_models(environ: dict[str, str]) -> list[Finding]:
    """The findings after those on the installation."""
    whole = examine(environ, ask=True)
    (log,) = [index for index, one in enumerate(whole) if "log" in one.text.split()]
    return whole[log + 1 :]


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


AS_TEXT = '<tool_call>{"name": "ready", "arguments": {}}</tool_call>'


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (say(AS_TEXT), "--enable-auto-tool-choice"),
        (failure(401, "Incorrect API key: sk-fake-0123456789abcdef"), "Set OPENAI_API_KEY to a key that may use fake"),
        (Reply(hang_after=0), "did not answer within 0.5 s"),
    ],
)
def test_what_is_wrong_with_a_model_is_said_and_no_key(
    answer: Scripted, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "ANSWER_SECONDS", 0.5 if answer == Reply(hang_after=0) else checkup.ANSWER_SECONDS)
    with FakeOpenAI([answer]) as server:
        found = of_models(server.environment())[1]
    assert found.mark == "MEND"
    assert says in found.text
    assert "0123456789" not in found.text


def test_the_command_line_knows_offline(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeOpenAI() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        cli.main(["doctor", "--offline"])
    assert "was not asked" in capsys.readouterr().out
