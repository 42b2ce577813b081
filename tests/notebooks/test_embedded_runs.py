"""Runs with no server: the runtime in the kernel's own process, with a page and without one."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.headless import SETUP
from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

ANSWER = 'turns = call("run_python", code="x = 6 * 7\\nprint(x)"), say("It is **42**.")\n'


@pytest.fixture
def model_kernel(scripted: TestKernel) -> TestKernel:
    scripted.run(ANSWER)
    return scripted


def states(kernel: TestKernel) -> Any:
    return kernel.value("[(call.tool_name, call.state, call.by) for call in ak.last_run().tool_calls]")


def test_with_nobody_there_to_ask_an_undecided_call_is_denied_and_the_run_goes_on(model_kernel: TestKernel) -> None:
    cell = model_kernel.run("run = agent(*turns).run('What is 6 * 7?')\nrun.status, run.text, 'x' in dir()")
    assert cell.value == "('complete', 'It is **42**.', False)"
    assert "denied" in states(model_kernel)


def test_a_scripted_policy_decides_and_answers(scripted: TestKernel) -> None:
    scripted.run(
        "turns = [call('run_python', code='a = 1'), call('ask_user', question='Which?')]\n"
        "policy = ak.Policy.scripted([ak.edit({'code': 'a = 2'}, 'run_python'), ak.answer('The first.')])\n"
        "run = agent(calls(*turns, call('run_python', code='b = 1')), say('Done.'), policy=policy).run('Go')"
    )
    assert scripted.value("a, 'b' in dir(), run.tool_calls[1].result") == "(2, False, 'The first.')"
    decided = scripted.value("' '.join(f'{one.state}:{one.by}' for one in run.tool_calls)")
    assert decided == "'success:script success:script denied:policy'"


def test_calls_of_a_run_that_nobody_waits_for_run_between_cells(model_kernel: TestKernel) -> None:
    model_kernel.run("run = allowing(*turns).start('What is 6 * 7?')")
    while model_kernel.value("run.status") == "'running'":
        pass
    assert model_kernel.value("x, run.text, _") == "(42, 'It is **42**.', 'complete')"


TOOLS = """
@ak.tool(approval='allow')
def double(n: int) -> int:
    'Double it.'
    return 2 * n
@ak.tool(approval=lambda arguments: {3: 'allow', 9: 'deny'}[arguments['n']])
async def later(n: int) -> dict[str, int]:
    'Wait.'
    await asyncio.sleep(0)
    return {'n': n}
@ak.tool(approval='allow')
def nested(question: str) -> str:
    'Ask another agent.'
    return agent(call('double', n=21), say('inner says 42'), tools=[double]).run(question).text
asks = [call('double', n=2), *(call('later', n=n) for n in (3, 9, 4)), call('nested', question='?')]
run = agent(calls(*asks), say('done'), tools=[double, later, nested]).run('go')
"""


def test_tools_may_be_functions_coroutines_and_runs_themselves(scripted: TestKernel) -> None:
    scripted.run(TOOLS)
    found = scripted.value("[(call.state, call.result.splitlines()[-1]) for call in run.tool_calls]")
    double, later, denied, failed, nested = ast.literal_eval(found)
    assert (double, later, denied[0]) == (("success", "4"), ("success", '{"n": 3}'), "denied")
    assert failed[0] == "denied", "where a tool's approval function fails, somebody is asked"
    assert nested == ("success", "inner says 42")


def test_a_page_approves_while_the_cell_blocks(model_kernel: TestKernel) -> None:
    page = Page(model_kernel)
    cell = model_kernel.send("agent(*turns).run('What is 6 * 7?').text", allow_stdin=True)
    page.open()
    asked = page.event("approval_request")
    page.send(type="approval_response", approval_id=asked["approval_id"], approved=True, digest=asked["digest"])
    assert page.event("tool_output")["output"]["text"] == "42\n"
    assert page.event("complete")["finish_reason"] == "stop"
    assert [frame["seq"] for frame in page.frames] == list(range(1, len(page.frames) + 1))
    bundle = page.record()
    assert "application/vnd.jupyter.widget-view+json" not in bundle["data"]
    assert "data-agent-record" in bundle["data"]["text/html"]
    assert model_kernel.result(cell).value == "'It is **42**.'"


def test_where_no_page_answers_the_call_is_denied_with_a_reason(model_kernel: TestKernel) -> None:
    model_kernel.set_constant("agent_kernel.notebook.hosts.embedded", "CLIENT_SECONDS", 0.1)
    model_kernel.run("(denied,) = agent(*turns).run('go').tool_calls", allow_stdin=True)
    assert "Nobody could be asked" in model_kernel.value("denied.reason")
    assert model_kernel.value("denied.by") == "'policy'"


def test_a_file_in_the_notebooks_folder_tightens_and_config_says_so(
    start_kernel: Callable[..., TestKernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".agent-kernel.toml").write_text('policy = "plan"\nrules = ["allow *"]\n')
    monkeypatch.chdir(tmp_path)
    kernel = start_kernel()
    kernel.run(f"{SETUP}{ANSWER}%load_ext agent_kernel")
    kernel.run("run = agent(*turns, policy=ak.Policy(['allow run_python'], 'allow')).run('What is 6 * 7?')")
    assert states(kernel) == "[('run_python', 'denied', 'policy')]"
    said = kernel.run("%agent config").streams()
    assert "Runs here are limited by .agent-kernel.toml: at most plan." in said
    assert "the rule 'allow *' is not used, because a file can only tighten." in said
    assert "Limited by .agent-kernel.toml: at most plan.\n" in kernel.run("%agent rules").streams()
