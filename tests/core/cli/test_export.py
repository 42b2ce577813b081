"""`agent-kernel export`: a run of the log as a notebook, as messages, as Markdown."""

import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from agent_kernel import cli
from agent_kernel.protocol.calls import Outcome
from agent_kernel.testing import call, calls, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stages

Printed = Callable[..., str]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite"


@pytest.fixture
def printed(log: Path, capsys: pytest.CaptureFixture[str]) -> Printed:
    """What a command prints, once it has said whether it worked."""

    def run(*words: str, code: int = 0) -> str:
        assert cli.main(["export", *words, "--log", str(log)]) == code
        said = capsys.readouterr()
        return said.out if code == 0 else said.err

    return run


async def a_log(stages: Stages, log: Path) -> list[str]:
    """Two runs of a conversation, in a log that stays open. Their ids."""
    executor = FunctionExecutor(lambda ran, emit: Outcome("error", "KeyError") if "df" in ran.arguments_json else "42")
    asked = [call("run_python", code="x = 6 * 7\nprint(x)"), call("run_python", code="df['a']")]
    stage = await stages([calls(*asked), say("It is **42**."), say("And again.")], path=log, executor=executor)
    first = await stage.start("What is 6 * 7?", policy="allow")
    await first.wait()
    second = await stage.start("Say it again.", policy="allow")
    await second.wait()
    return [first.run_id, second.run_id]


async def test_a_run_becomes_a_notebook_while_the_log_is_open(
    stages: Stages, log: Path, tmp_path: Path, printed: Printed
) -> None:
    first, _ = await a_log(stages, log)
    target = tmp_path / "six.ipynb"
    assert printed(first, "--notebook", str(target)) == f"{target}\n"
    notebook = nbformat.read(target, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert [cell.source for cell in notebook.cells[1:]] == [
        "x = 6 * 7\nprint(x)",
        "# Left out: failed.\n# df['a']",
        "It is **42**.",
    ]
    assert notebook.cells[0].source.startswith("# What is 6 * 7?\n")


async def test_a_file_that_is_there_is_kept_unless_it_may_be_replaced(
    stages: Stages, log: Path, tmp_path: Path, printed: Printed
) -> None:
    await a_log(stages, log)
    target = tmp_path / "mine.md"
    target.write_text("mine")
    assert "exists" in printed("last", "--markdown", str(target), code=1)
    assert target.read_text() == "mine"
    printed("last", "--markdown", str(target), "--force")
    assert target.read_text().startswith("> ")
    assert "can't be written" in printed("last", "--markdown", str(tmp_path / "no" / "x.md"), code=1)


async def test_messages_are_in_openais_chat_format_up_to_the_end_of_the_run(
    stages: Stages, log: Path, printed: Printed
) -> None:
    first, second = await a_log(stages, log)
    messages = json.loads(printed(first, "--messages"))
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert messages[0] == {"role": "user", "content": "What is 6 * 7?"}
    asked = messages[1]["tool_calls"][0]
    assert (asked["type"], asked["function"]["name"]) == ("function", "run_python")
    assert json.loads(asked["function"]["arguments"]) == {"code": "x = 6 * 7\nprint(x)"}
    assert messages[2] == {"role": "tool", "content": "42", "tool_call_id": asked["id"]}
    assert [message["content"] for message in json.loads(printed(second, "--messages"))][-2:] == [
        "Say it again.",
        "And again.",
    ]


async def test_a_run_is_found_by_its_id_the_beginning_of_it_or_as_the_last_one(
    stages: Stages, log: Path, printed: Printed
) -> None:
    first, second = await a_log(stages, log)
    assert "> What is 6" in printed(first)
    assert "> What is 6" in printed(first[:12], "--markdown")
    assert "> What is 6" in printed(first.removeprefix("run_")[:10])
    assert "> Say it again." in printed("last")
    listed = printed()
    assert [line.split()[0] for line in listed.splitlines()] == [second[:12], first[:12]]
    assert listed.splitlines()[1].endswith("What is 6 * 7?  work/test.ipynb")


async def test_what_is_no_run_is_answered_with_those_that_there_are(
    stages: Stages, log: Path, printed: Printed
) -> None:
    first, _ = await a_log(stages, log)
    said = printed("run_0nope", code=1)
    assert said.startswith("agent-kernel: There is no run 'run_0nope' in this log. The last ones:\n")
    assert first[:12] in said
    assert "More than one run begins with 'run_'." in printed("run_", code=1)
