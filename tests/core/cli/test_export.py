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
async def runs(stages: Stages, tmp_path: Path) -> list[str]:
    """The ids of two runs of a conversation, whose log stays open."""
    executor = FunctionExecutor(lambda ran, emit: Outcome("error", "KeyError") if "df" in ran.arguments_json else "42")
    asked = calls(call("run_python", code="x = 6 * 7\nprint(x)"), call("run_python", code="df['a']"))
    turns = [asked, say("It is **42**."), say("And again.")]
    stage = await stages(turns, path=tmp_path / "log.sqlite", executor=executor)
    return [(await stage.run(prompt, policy="allow")).run.run_id for prompt in ("What is 6 * 7?", "Say it again.")]


@pytest.fixture
def printed(runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Printed:
    """What a command prints, once it has said whether it worked."""

    def run(*words: str, code: int = 0) -> str:
        assert cli.main(["export", *words, "--log", str(tmp_path / "log.sqlite")]) == code
        said = capsys.readouterr()
        return said.out if code == 0 else said.err

    return run


async def test_a_run_becomes_a_notebook_while_the_log_is_open(
    runs: list[str], tmp_path: Path, printed: Printed
) -> None:
    target = tmp_path / "six.ipynb"
    assert printed(runs[0], "--notebook", str(target)) == f"{target}\n"
    notebook = nbformat.read(target, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    prompt, *others = (cell.source for cell in notebook.cells)
    assert prompt.startswith("# What is 6 * 7?\n")
    assert others == ["x = 6 * 7\nprint(x)", "# Left out: failed.\n# df['a']", "It is **42**."]


async def test_messages_are_in_openais_chat_format_up_to_the_end_of_the_run(runs: list[str], printed: Printed) -> None:
    asked, called, result, _, answer = json.loads(printed(runs[0], "--messages"))
    assert asked == {"role": "user", "content": "What is 6 * 7?"}
    first, _ = called["tool_calls"]
    assert (first["type"], first["function"]["name"]) == ("function", "run_python")
    assert json.loads(first["function"]["arguments"]) == {"code": "x = 6 * 7\nprint(x)"}
    assert result == {"role": "tool", "content": "42", "tool_call_id": first["id"]}
    assert (answer["role"], answer["content"]) == ("assistant", "It is **42**.")
    *_, prompt, last = json.loads(printed(runs[1], "--messages"))
    assert (prompt["content"], last["content"]) == ("Say it again.", "And again.")


async def test_a_run_is_found_by_its_id_the_beginning_of_it_or_as_the_last_one(
    runs: list[str], printed: Printed
) -> None:
    first, second = runs
    for found in ((first,), (first[:12], "--markdown"), (first.removeprefix("run_")[:10],)):
        assert "> What is 6" in printed(*found)
    assert "> Say it again." in printed("last")
    listed = printed().splitlines()
    assert [line.split()[0] for line in listed] == [second[:12], first[:12]]
    assert listed[1].endswith("What is 6 * 7?  work/test.ipynb")
