"""What `agent-kernel doctor` says of the models: each endpoint is asked as runs ask it."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import cli
from agent_kernel.doctor import examine
from agent_kernel.models import checkup
from agent_kernel.models.checkup import Finding
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.testing.wire.reply import Reply, failure

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
