"""An output that is too long for the model is in a file, whose name it is told, wherever the output was cut."""

import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_kernel.tools.walls.inside import found_walls, words_of
from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

PRINTS = """
import agent_kernel as ak
from agent_kernel.testing import ScriptedModel, call, say

def told(code, tool="run_python", **arguments):
    given = {"code": code} if tool == "run_python" else {"command": code}
    run = ak.Agent(model=ScriptedModel([call(tool, **given), say("Done.")]), policy="allow").run("Go.")
    one = run.tool_calls[0]
    return one.state, one.result, one.output_file
"""


def test_the_name_of_its_file_stays_in_what_the_model_is_told(
    start_kernel: Callable[..., TestKernel], tmp_path: Path
) -> None:
    """Of a command: it is cut by the kernel's stream and by what a result may have."""
    whole = len(f"walls: {words_of(found_walls(), 'workspace')}\n") + sum(len(f"{n}\n") for n in range(300_000))
    kernel = start_kernel(XDG_CACHE_HOME=str(tmp_path))
    kernel.run(PRINTS)
    kernel.run("state, result, file = told('seq 0 299999', tool='run_shell')")
    folder = tmp_path / "agent-kernel" / "outputs"
    [file] = folder.iterdir()
    assert kernel.value("state, len(result) <= 25_000") == "('success', True)"
    assert kernel.value("file") == repr(str(file))
    assert kernel.value("result.count(file)") == "1"
    assert abs(len(file.read_text()) - whole) <= 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert re.fullmatch(r"[a-z_]+-[0-9a-f]{16}\.txt", file.name)


def test_a_call_prints_on_where_no_file_can_be_written(start_kernel: Callable[..., TestKernel], tmp_path: Path) -> None:
    (tmp_path / "agent-kernel").write_text("in the way")
    kernel = start_kernel(XDG_CACHE_HOME=str(tmp_path))
    kernel.run(PRINTS)
    found = kernel.value("(found := told('for n in range(300_000): print(n)'))[0], found[2], '299999' in found[1]")
    assert found == "('success', None, True)"
