"""A shell command in a real kernel: the walls that it is told to have are around it."""

import pytest

from agent_kernel.tools.walls.inside import found_walls, words_of
from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

SETUP = """
import agent_kernel as ak
from agent_kernel.notebook.offered_tools import FOLDER
from agent_kernel.testing import ScriptedModel, call, say
from ipykernel.connect import get_connection_file
def shell(command, approvals=None, **arguments):
    model = ScriptedModel([call("run_shell", command=command, **arguments), say("Done.")])
    one = ak.Agent(model=model, policy="allow").run("Go.", approvals=approvals).tool_calls[0]
    return one.state, one.result
"""
FIRST = f"walls: {words_of(found_walls(), 'workspace')}\n"


@pytest.fixture
def shell(kernel: TestKernel) -> TestKernel:
    kernel.run(SETUP)
    return kernel


def test_a_result_begins_with_the_walls(shell: TestKernel) -> None:
    assert shell.value("shell('echo made')") == repr(("success", f"{FIRST}made\nExit code: 0"))
    assert shell.value("shell('seq 300000')[1].startswith('walls: ')") == "True"  # of which the most is left out
    state, outside = "success", "walls: none (it runs outside)\nmade\nExit code: 0"
    asked = {"command": "echo made", "outside": True}
    given = f"shell('echo made', [ak.approve('run_shell', {asked})], outside=True)"
    assert shell.value(given) == repr((state, outside))


@pytest.mark.skipif(found_walls().kind == "none", reason="this machine has no walls")
def test_a_command_writes_in_the_notebooks_folder_and_has_no_key_of_the_kernel(shell: TestKernel) -> None:
    shell.run("import os, json; os.environ['LAB_KEY'] = 'a-key-of-the-lab'")
    shell.run(
        "state, result = shell(f'env; pwd; echo 1 > n && cat n; rm n; cat {get_connection_file()}; touch /usr/new')"
    )
    shell.run("key = json.load(open(get_connection_file()))['key']")
    assert shell.value("state, key in result, 'a-key-of-the-lab' in result") == "('error', False, False)"
    assert shell.value("f'{FOLDER}\\n1\\n' in result") == "True"
    assert shell.value("result.splitlines()[0]") == repr(f"Error: {FIRST}".rstrip())
    assert shell.value("result.splitlines()[-2].startswith('stopped by the walls: touch: ')") == "True"


def test_a_call_does_not_run_with_other_walls_than_its_approval_had(shell: TestKernel) -> None:
    """As where the kernel was moved to another machine between the card and the press."""
    moved = "from agent_kernel.protocol.calls import WallsFound\nfrom agent_kernel.tools.builtin import places"
    assert shell.run(moved).ok
    assert shell.run("kept, places.found_walls = places.found_walls, lambda: WallsFound('none', 'elsewhere')").ok
    shell.run("state, result = shell('echo ran')")
    assert shell.run("places.found_walls = kept").ok
    assert shell.value("state, 'these are not the walls of its approval' in result, '\\nran' in result") == (
        "('error', True, False)"
    )
