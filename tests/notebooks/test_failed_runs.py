"""Without a person in front of the notebook, a cell ends with its runs, and fails when one of them failed."""

import re
from collections.abc import Callable

import pytest

from tests.notebooks.kernel import Cell, TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

SETUP = """import agent_kernel as ak
from agent_kernel.errors import ModelUnavailable, RunFailed
from agent_kernel.testing import ScriptedModel, call, say
def agent(*turns, **options):
    return ak.Agent(model=ScriptedModel([*turns]), **{"policy": "allow", **options})
down = ModelUnavailable("The service is down. Try it later.")
"""
FAILED = 'The agent\'s run "Sum the table" failed: The service is down. Try it later.'


@pytest.fixture
def scripted(kernel: TestKernel) -> TestKernel:
    kernel.run(SETUP)
    return kernel


def kinds(cell: Cell) -> list[str]:
    return [kind for kind, _ in cell.outputs]


def test_a_failed_run_fails_its_cell_after_its_record_and_is_named(scripted: TestKernel) -> None:
    cell = scripted.run("agent(down).run('Sum the table')")
    assert cell.reply["status"] == "error"
    assert cell.reply["ename"] == "RunFailed"
    assert cell.reply["evalue"].startswith(FAILED)
    assert "--allow-failure" in cell.reply["evalue"]
    assert kinds(cell)[-1] == "error"
    assert "data-agent-record" in str(cell.shown("text/html"))
    shown = "\n".join(cell.outputs[-1][1]["traceback"])
    assert scripted.value("ak.last_run().run_id").strip("'") in shown


@pytest.mark.parametrize("end", ["", "\nawait __import__('asyncio').sleep(0)"], ids=["plain", "asynchronous"])
def test_a_run_that_nobody_awaited_ends_in_its_cell_and_fails_it(scripted: TestKernel, end: str) -> None:
    work = "call('run_python', code='seen = 6 * 7')"
    cell = scripted.run(f"seen = 0\nrun = agent({work}, down).start('Sum the table'){end}")
    assert cell.reply["evalue"].startswith(FAILED)
    assert "data-agent-record" in str(cell.shown("text/html"))
    assert scripted.value("run.status, seen") == "('error', 42)"


def test_a_run_that_nobody_awaited_and_that_is_complete_leaves_its_record(scripted: TestKernel) -> None:
    cell = scripted.run("run = agent(say('Fine.')).start('Sum the table')")
    assert cell.reply["status"] == "ok"
    assert "Fine." in str(cell.shown("text/html"))
    assert "record" not in str(scripted.run("run.wait()").shown("text/html"))


def test_each_failed_run_of_a_cell_is_named(scripted: TestKernel) -> None:
    cell = scripted.run("for prompt in ('One', 'Two\\nlines', 'x' * 100): agent(down).start(prompt)")
    named = re.findall(r'run "(.*)" failed', cell.reply["evalue"])
    assert named == ["One", "Two…", "x" * 60 + "…"]
    assert "\n".join(cell.reply["traceback"]).count("run_") == 3


@pytest.mark.parametrize(
    "handled",
    [
        "run = agent(down).run('Go'); print(run.error.code)",
        "try: agent(down).run('Go').text\nexcept RunFailed as error: print('caught', error)",
        "%agent --allow-failure --model replay:nowhere.json Go",
    ],
    ids=["reads-error", "catches", "allows"],
)
def test_a_failure_that_the_cell_handles_or_allows_lets_it_pass(scripted: TestKernel, handled: str) -> None:
    scripted.run("%load_ext agent_kernel")
    assert scripted.run(handled).reply["status"] == "ok"


def test_a_failure_in_a_cell_that_fails_anyway_is_not_blamed_on_the_next_one(scripted: TestKernel) -> None:
    assert scripted.run("agent(down).run('Go')\n1 / 0").reply["ename"] == "ZeroDivisionError"
    assert scripted.run("'next'").reply["status"] == "ok"


def test_a_run_that_was_cancelled_by_the_cell_has_not_failed(scripted: TestKernel) -> None:
    cell = scripted.run(
        "async def silent(request):\n"
        "    await __import__('asyncio').sleep(600)\n"
        "    yield\n"
        "run = agent(silent).start('Go'); run.cancel()"
    )
    assert cell.reply["status"] == "ok"
    assert scripted.value("run.status") == "'cancelled'"


def test_an_interrupt_ends_a_cell_that_waits_at_its_end(kernel: TestKernel) -> None:
    kernel.run(SETUP)
    cell = kernel.send(
        "import asyncio, time\n"
        "async def silent(request):\n"
        "    while len(runs) < 2:  # the cell may be at the second start\n"
        "        await asyncio.sleep(0.01)\n"
        "    await asyncio.sleep(0.1)\n"
        "    print('going', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "    yield\n"
        "runs = []\n"
        "for _ in range(2): runs.append(agent(silent).start('Go'))"
    )
    kernel.printed(cell, "going\ngoing")
    kernel.manager.interrupt_kernel()
    assert kernel.result(cell).reply["ename"] == "KeyboardInterrupt"
    assert kernel.value("[run.wait().status for run in runs]") == "['cancelled', 'cancelled']"


def test_with_a_person_in_front_of_it_a_cell_does_not_fail(kernel: TestKernel) -> None:
    kernel.run(SETUP)
    cell = kernel.run("run = agent(down).run('Sum the table')", allow_stdin=True)
    assert cell.reply["status"] == "ok"
    assert "error" not in kinds(cell)
    assert kernel.value("run.status") == "'error'"


@pytest.mark.parametrize(
    ("mode", "state"),
    [("none", "denied"), ("all", "success")],
)
def test_the_environment_says_what_answers_calls_that_ask(
    start_kernel: Callable[..., TestKernel], mode: str, state: str
) -> None:
    kernel = start_kernel(AGENT_KERNEL_APPROVE=mode)
    kernel.run(SETUP)
    kernel.run(
        "calls = call('run_python', code='1'), call('run_shell', command='true')\n"
        "agent(*calls, say('Done.'), policy=ak.Policy(rules=['deny run_shell'])).run('Go')"
    )
    assert kernel.value("[call.state for call in ak.last_run().tool_calls]") == f"['{state}', 'denied']"
    kernel.run("agent(call('run_python', code='1'), say('Done.'), policy='ask').run('Go', approvals=[(False, 'no')])")
    assert kernel.value("[(call.state, call.reason) for call in ak.last_run().tool_calls]") == "[('denied', 'no')]"


def test_a_run_that_a_call_starts_between_cells_holds_no_cell_of_a_person(kernel: TestKernel) -> None:
    kernel.run(SETUP)
    kernel.run(
        "async def silent(request):\n"
        "    await __import__('asyncio').sleep(600)\n"
        "    yield\n"
        "code = 'inner = agent(silent).start(\"inner\")'\n"
        "run = agent(call('run_python', code=code), say('Done.')).start('Go')",
        allow_stdin=True,
    )
    assert kernel.run("run.wait(20).status, inner.status", allow_stdin=True).value == "('complete', 'running')"
    assert kernel.run("inner.cancel()", allow_stdin=True).reply["status"] == "ok"
