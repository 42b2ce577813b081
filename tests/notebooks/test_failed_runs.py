"""Without a person in front of the notebook, a cell ends with its runs, and fails when one of them failed."""

import pytest

from tests.notebooks.kernel import Cell, TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

FAILED = 'The agent\'s run "Sum the table" failed: The service is down. Try it later.'


def kinds(cell: Cell) -> list[str]:
    return [kind for kind, _ in cell.outputs]


def test_a_failed_run_fails_its_cell_after_its_record_and_is_named(scripted: TestKernel) -> None:
    cell = scripted.run("allowing(down).run('Sum the table')")
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
    cell = scripted.run(f"seen = 0\nrun = allowing({work}, down).start('Sum the table'){end}")
    assert cell.reply["evalue"].startswith(FAILED)
    assert "data-agent-record" in str(cell.shown("text/html"))
    assert scripted.value("run.status, seen") == "('error', 42)"


@pytest.mark.parametrize(
    "handled",
    [
        "run = allowing(down).run('Go'); print(run.error.code)",
        "try: allowing(down).run('Go').text\nexcept RunFailed as error: print('caught', error)",
        "%agent --allow-failure --model replay:nowhere.json Go",
    ],
    ids=["reads-error", "catches", "allows"],
)
def test_a_failure_that_the_cell_handles_or_allows_lets_it_pass(scripted: TestKernel, handled: str) -> None:
    scripted.run("%load_ext agent_kernel")
    assert scripted.run(handled).reply["status"] == "ok"


def test_an_interrupt_ends_a_cell_that_waits_at_its_end(scripted: TestKernel) -> None:
    cell = scripted.send(
        "async def speaks(request):\n"
        "    while len(runs) < 2: await asyncio.sleep(0.01)  # the cell may be at the second start\n"
        "    await asyncio.sleep(0.1)\n"
        "    print('going', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "    yield\n"
        "runs = []\n"
        "for _ in range(2): runs.append(agent(speaks).start('Go'))"
    )
    scripted.printed(cell, "going\ngoing")
    scripted.manager.interrupt_kernel()
    assert scripted.result(cell).reply["ename"] == "KeyboardInterrupt"
    assert scripted.value("[run.wait().status for run in runs]") == "['cancelled', 'cancelled']"


def test_with_a_person_in_front_of_it_a_cell_does_not_fail(scripted: TestKernel) -> None:
    cell = scripted.run("run = agent(down).run('Sum the table')", allow_stdin=True)
    assert cell.reply["status"] == "ok"
    assert "error" not in kinds(cell)
    assert scripted.value("run.status") == "'error'"


@pytest.mark.parametrize(("mode", "state"), [("none", "denied"), ("all", "success")])
def test_the_environment_says_what_answers_calls_that_ask(scripted: TestKernel, mode: str, state: str) -> None:
    scripted.run(f"import os; os.environ['AGENT_KERNEL_APPROVE'] = {mode!r}")
    scripted.run(
        "asks = call('run_python', code='1')\n"
        "denies = ak.Policy(rules=['deny run_shell'])\n"
        "run = agent(asks, call('run_shell', command='true'), say('Done.'), policy=denies).run('Go')"
    )
    assert scripted.value("[call.state for call in run.tool_calls]") == f"['{state}', 'denied']"
    scripted.run("run = agent(asks, say('Done.')).run('Go', approvals=[(False, 'no')])")
    assert scripted.value("[(call.state, call.reason) for call in run.tool_calls]") == "[('denied', 'no')]"


def test_a_run_that_a_call_starts_between_cells_holds_no_cell_of_a_person(scripted: TestKernel) -> None:
    code = 'inner = agent(silent).start("inner")'
    scripted.run(f"run = allowing(call('run_python', code={code!r}), say('Done.')).start('Go')", allow_stdin=True)
    assert scripted.run("run.wait(20).status, inner.status", allow_stdin=True).value == "('complete', 'running')"
    waited = scripted.run("inner.wait(timeout=0.05)", allow_stdin=True).reply
    assert (waited["ename"], "It goes on." in waited["evalue"]) == ("TimeoutError", True)
    assert scripted.run("inner.cancel()", allow_stdin=True).reply["status"] == "ok"
