"""The kernel's interrupt stops the run of the agent that has the floor, and a cell of the user's own before that."""

import ast
import signal
from pathlib import Path

import pytest

from agent_kernel.notebook.execution.call_interrupts import InterruptGate, own_signal
from tests.notebooks.kernel import Cell, TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

SETUP = """\
import asyncio, threading, time
import agent_kernel as ak
from agent_kernel.models.base import TextDelta
from agent_kernel.notebook.run import state_of
from agent_kernel.testing import ScriptedModel, call, say

async def slow(request):
    "Says something, and then nothing more."
    asked.set()
    yield TextDelta("a")
    await asyncio.sleep(60)

def asks(): return ScriptedModel([call("run_python", code="ran.append(1)"), say("Never said.")])
def sleeps(code="ran.append(1); print('in', flush=True); time.sleep(60); ran.append(2)"):
    return ScriptedModel([call("run_python", code=code), say("Never said.")])
def start(model, **options): return ak.Agent(model=model, **options).start("go")
def touch_when_waited_for(run, path):
    "Have a thread make the file once the cell waits for the run: before that its own code would be interrupted."
    def look():
        while not state_of(run)._listeners: time.sleep(0.01)
        time.sleep(0.1)
        open(path, "w").close()
    threading.Thread(target=look).start()
ran = []
asked = threading.Event()
"""
STATE = (
    "run.wait(20).status, [(c.state, c.reason) for c in run.tool_calls], "
    "[n.content for n in state_of(run).view.notices], ran"
)
NOTICE = ["Stopped, because the kernel was interrupted."]


@pytest.fixture
def kernel(shared_kernel: TestKernel) -> TestKernel:
    shared_kernel.forget()
    shared_kernel.run(SETUP)
    return shared_kernel


def state_of(kernel: TestKernel) -> tuple[str, list[tuple[str, str]], list[str], list[object]]:
    found: tuple[str, list[tuple[str, str]], list[str], list[object]] = ast.literal_eval(kernel.value(STATE))
    return found


def assert_interrupted(cell: Cell) -> None:
    """An interrupted cell shows one line of that."""
    errors = [content for kind, content in cell.outputs if kind == "error"]
    assert [error["ename"] for error in errors] == [cell.reply["ename"]] == ["KeyboardInterrupt"]
    assert errors[0]["traceback"] == ["KeyboardInterrupt: the agent's run was stopped."]


def test_while_the_model_streams_and_no_cell_runs(kernel: TestKernel) -> None:
    kernel.run("run = start(ScriptedModel([slow])); asked.wait(20)", allow_stdin=True)
    kernel.manager.interrupt_kernel()
    assert state_of(kernel) == ("cancelled", [], NOTICE, [])


@pytest.mark.parametrize(
    ("model", "policy", "shown", "reason", "ran"),
    [
        ("asks()", "ask", "approval_request", "The user interrupted the kernel.", []),
        ("sleeps()", "allow", "tool_output", None, [1]),
    ],
    ids=["a card is all that waits", "a call runs"],
)
def test_while(kernel: TestKernel, model: str, policy: str, shown: str, reason: str | None, ran: list[int]) -> None:
    page = Page(kernel)
    kernel.run(f"model = {model}; run = start(model, policy={policy!r})", allow_stdin=True)
    page.open()
    page.event(shown)
    kernel.manager.interrupt_kernel()
    assert state_of(kernel) == ("cancelled", [("cancelled", reason)], NOTICE, ran)
    told = "len(model.requests), 'The user interrupted the kernel' in run.tool_calls[0].result"
    assert kernel.value(told) == "(1, True)"


AS_IT_BEGINS = """import functools, os, signal
shell = get_ipython()
def at_first(function):
    @functools.wraps(function)
    async def run_cell_async(*arguments, **options):
        if arguments[0].startswith('await __import__'):
            del shell.run_cell_async
            os.kill(os.getpid(), signal.SIGINT)
            open({begun!r}, 'w').close()
        return await function(*arguments, **options)
    return run_cell_async
shell.run_cell_async = at_first(shell.run_cell_async)"""
"""Interrupts the kernel when a call's message has been taken up, and its code has not begun."""


def test_as_a_call_begins(kernel: TestKernel, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    kernel.run('model = sleeps("time.sleep(1)")')
    code = AS_IT_BEGINS.format(begun=str(begun))
    kernel.run(f"{code}\nrun = start(model, policy='allow')", allow_stdin=True)
    kernel.wait(begun.exists)  # a cell that waited would run the call itself
    assert state_of(kernel)[0] == "cancelled"
    assert kernel.value("len(model.requests)") == "1"


AS_IT_IS_TAKEN_UP = """import os, signal
from ipykernel import kernelbase
def signal_with_default(number, handler):
    found = signal.signal(number, handler)
    if handler is signal.default_int_handler:
        os.kill(os.getpid(), signal.SIGINT)
    return found
kernelbase.signal = signal_with_default"""
"""Interrupts the kernel as soon as ipykernel has its own handler for a message, which then ends the kernel."""


def test_as_the_message_of_a_call_is_taken_up(kernel: TestKernel) -> None:
    kernel.run(AS_IT_IS_TAKEN_UP)
    put_back = "import signal\nfrom ipykernel import kernelbase\nkernelbase.signal = signal.signal"
    assert kernel.call("taken up", put_back)["outcome"]["status"] == "success"
    assert kernel.value("'alive'") == "'alive'"


AS_A_PAGE_ASKS = """import os, signal
handlers = get_ipython().kernel.shell_handlers
answer = handlers["is_complete_request"]
async def interrupted(*request):
    handlers["is_complete_request"] = answer
    os.kill(os.getpid(), signal.SIGINT)
    await answer(*request)
handlers["is_complete_request"] = interrupted"""


def test_while_the_kernel_answers_what_a_page_asks_on_its_own(kernel: TestKernel) -> None:
    kernel.run(f"{AS_A_PAGE_ASKS}\nrun = start(ScriptedModel([slow])); asked.wait(20)", allow_stdin=True)
    assert kernel.result(kernel.post("is_complete_request", code="1 + 1")).reply["status"] == "complete"
    assert state_of(kernel) == ("cancelled", [], NOTICE, [])


def test_a_cell_of_the_users_own_that_runs_is_interrupted_first(kernel: TestKernel) -> None:
    page = Page(kernel)
    kernel.run("run = start(asks())", allow_stdin=True)
    page.open()
    page.event("approval_request")
    for code in ("time.sleep(60)", "while True: await asyncio.sleep(0.05)"):
        own = kernel.send(f"print('mine', flush=True)\n{code}")
        kernel.printed(own, "mine")
        kernel.manager.interrupt_kernel()
        assert kernel.result(own).reply["ename"] in ("KeyboardInterrupt", "CancelledError")
        assert kernel.value("run.status") == "'running'"
    kernel.manager.interrupt_kernel()
    assert kernel.value("run.wait(20).status") == "'cancelled'"


@pytest.mark.parametrize(("wait", "calls"), [("run.wait()", True), ("await run", True), ("await run", False)])
def test_a_cell_that_waits_ends_in_one_line_and_stops_its_run(
    kernel: TestKernel, wait: str, calls: bool, tmp_path: Path
) -> None:
    waits = tmp_path / "waits"
    page = Page(kernel)
    model = "sleeps()" if calls else "ScriptedModel([slow])"
    kernel.run(f"model = {model}; run = start(model)", allow_stdin=True)
    page.open()
    cell = kernel.send(f"touch_when_waited_for(run, {str(waits)!r})\n{wait}", allow_stdin=True)
    behind = kernel.send("ran.append('behind')")
    kernel.wait(waits.exists)
    if calls:
        page.send(type="approval_response", approval_id=page.event("approval_request")["approval_id"], approved=True)
        page.event("tool_output")
    kernel.manager.interrupt_kernel()
    assert_interrupted(kernel.result(cell))
    assert kernel.result(behind).reply["status"] == "aborted"
    assert state_of(kernel) == ("cancelled", [("cancelled", None)] if calls else [], NOTICE, [1] if calls else [])
    assert kernel.value("len(model.requests)") == "1"


def test_an_interrupt_of_an_idle_kernel_without_runs_does_nothing(kernel: TestKernel) -> None:
    kernel.manager.interrupt_kernel()
    assert kernel.value("6 * 7") == "42"


@pytest.mark.parametrize("is_users", [True, False])
def test_an_interrupt_after_a_call_has_ended_is_not_raised_and_one_of_the_user_is_not_lost(is_users: bool) -> None:
    """It comes while the kernel still has the call's handler. One of the kernel's own was meant for the call."""
    heard: list[str] = []
    with (gate := InterruptGate()).installed():
        gate.end(lambda: heard.append("interrupt"))
        if is_users:
            signal.raise_signal(signal.SIGINT)
        else:
            own_signal.send()
    assert (heard, gate.interrupted, gate.by_user) == (["interrupt"] if is_users else [], False, False)
