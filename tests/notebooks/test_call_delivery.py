"""How a call reaches the main thread, and how it is stopped, in a real kernel."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.notebook.execution.approved_calls import KEPT_CALLS, Calls
from agent_kernel.protocol.calls import ApprovedCall
from agent_kernel.protocol.kernel import CallEnd, OfferCall
from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

COUNT = "counter = globals().get('counter', 0) + 1"
SLEEP = "import time\nprint('going')\ntime.sleep(60)"


def begin(kernel: TestKernel, name: str, code: str) -> str:
    """Run a call until it has printed something."""
    kernel.approve(name, code=code)
    taken = kernel.take(name)
    kernel.wait(lambda: kernel.collect(name)["outputs"])
    return taken


def stop(kernel: TestKernel, name: str) -> str:
    """Stop a call, which it does not survive; what the model is told of it."""
    assert kernel.request("interrupt", approval_id=name)["value"] is True
    outcome = kernel.until(name, "done")["outcome"]
    assert outcome["status"] == "cancelled"
    return str(outcome["content"])


def test_the_users_cells_interleave_with_calls(kernel: TestKernel) -> None:
    kernel.deposit("queued", code="order.append('call')")
    cells = [kernel.send("order = ['first']"), kernel.take("queued"), kernel.send("order")]
    assert all(kernel.result(cell).ok for cell in cells[:2])
    assert kernel.result(cells[2]).value == "['first', 'call']"


@pytest.mark.parametrize(
    "code", [SLEEP, "import asyncio\nprint('going')\nawait asyncio.sleep(60)"], ids=["sleeps", "awaits"]
)
def test_an_interrupt_stops_only_the_call_that_runs(kernel: TestKernel, code: str) -> None:
    taken = begin(kernel, "sleeper", code)
    after = kernel.send("'the next cell'")
    assert kernel.request("interrupt", approval_id="another")["value"] is False
    began = time.monotonic()
    assert stop(kernel, "sleeper").startswith("going\n")
    assert time.monotonic() - began < 30
    assert kernel.result(taken).ok
    assert kernel.result(after).value == "'the next cell'"


def test_a_call_that_waits_can_be_withdrawn_and_then_never_runs(kernel: TestKernel) -> None:
    kernel.deposit("withdrawn", code="ran_anyway = True")
    assert kernel.request("interrupt", approval_id="withdrawn")["value"] is True
    kernel.result(kernel.take("withdrawn"))
    assert kernel.collect("withdrawn")["outcome"]["status"] == "cancelled"
    assert kernel.value("'ran_anyway' in globals()") == "False"


def test_a_call_runs_once_however_often_it_is_sent(kernel: TestKernel, tmp_path: Path) -> None:
    """Also while it runs: the server sends it to a busy kernel on both channels, which it reads in two threads."""
    go_on = tmp_path / "go on"
    code = f"{COUNT}\nimport os, time\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.01)"
    kernel.deposit("repeated", code=code)
    takes = [kernel.take("repeated") for _ in range(3)]
    kernel.until("repeated", "running")
    kernel.deposit("repeated", code=code)
    assert kernel.collect("repeated")["state"] == "running"
    go_on.touch()
    assert kernel.until("repeated", "done")["outcome"]["status"] == "success"
    kernel.deposit("repeated", code=code)
    for taken in [*takes, kernel.take("repeated")]:
        kernel.result(taken)
    assert kernel.value("counter") == "1"


@pytest.mark.parametrize("waiting", ["run.wait()", "await run"])
def test_a_waiting_cell_runs_the_calls_itself_and_each_once(served: TestKernel, waiting: str) -> None:
    """The message to the main thread that follows each deposit queues behind the waiting cell, and finds nothing to
    do."""
    served.run("run = ak.Agent().start('Go'); counter = 0; loop_saw = []")
    beside = "import asyncio; task = asyncio.get_running_loop().call_later(0.01, loop_saw.append, 1)\n"
    cell = served.send(f"{beside}get_ipython().set_next_input('# its own')\n{waiting}\ncounter")
    takes = []

    def run(name: str, code: str) -> str:
        served.deposit(name, code=code)
        takes.append(served.take(name))
        outcome = served.until(name, "done")["outcome"]
        assert outcome["status"] == "success"
        return str(outcome["content"])

    for number in range(4):
        run(
            f"w{number}",
            f"{COUNT}\nprint(counter)" if number % 2 else f"import asyncio\nawait asyncio.sleep(0)\n{COUNT}",
        )
    assert "Return the number of items" in run("pages", "get_ipython().set_next_input('a call')\nlen?")
    served.deposit("slow", code="import time; time.sleep(60)")
    served.until("slow", "running")
    stop(served, "slow")
    served.finish(served.declared())
    result = served.result(cell)
    assert (result.value, result.streams()) == ("4", "")
    assert [payload["text"] for payload in result.reply["payload"]] == ["# its own"]
    assert all(served.result(taken).ok for taken in takes)
    assert served.value("counter, run.status, run.text") == "(4, 'complete', 'fine')"
    if "await" in waiting:
        assert served.value("loop_saw") == "[1]"


def test_arguments_that_were_not_approved_are_refused_on_both_channels(kernel: TestKernel) -> None:
    call = asdict(ApprovedCall("forged", "call_0", "run_python", '{"code":"forged_ran = 1"}', digest="0" * 64))
    answer = kernel.request("call", call=call)
    assert answer == {"ok": False, "error": answer["error"]}
    kernel._calls["forged"] = call
    reply = kernel.result(kernel.take("forged")).reply
    for said in (answer["error"], reply["evalue"]):
        assert "approved" in said
    assert kernel.value("'forged_ran' in globals()") == "False"
    assert kernel.collect("forged")["state"] == "unknown"


def test_pages_do_not_hear_of_a_servers_requests_and_hear_that_a_cell_runs_on(kernel: TestKernel) -> None:
    states: list[tuple[str, str]] = []

    def listen(message: dict[str, Any]) -> None:
        if message["msg_type"] == "status":
            states.append((message["content"]["execution_state"], message["parent_header"]["msg_type"]))

    kernel.listeners.append(listen)
    cell = kernel.send("import time; time.sleep(0.2)")
    kernel.begun(cell)
    kernel.request("changes")
    kernel.result(cell)
    assert states == [("busy", "execute_request"), ("idle", "execute_request")]


SCRIPTED = "import asyncio, agent_kernel as ak\nfrom agent_kernel.testing import ScriptedModel, call, say\norder = []\n"
SCRIPTED += "agent = ak.Agent(model=ScriptedModel([call('run_python', code={!r}), say('Done.')]), policy='allow')"
TICKS = "import asyncio\nticks = []\nasync def tick():\n    while True: ticks.append(1); await asyncio.sleep(0.01)\n"
TICKS += "lock = asyncio.Lock()\nawait lock.acquire()\ntask = asyncio.create_task(tick())"


@pytest.mark.parametrize("waiting", ["run.wait()", "await run"])
def test_a_task_that_a_call_leaves_ticks_on_after_the_cell_that_waited(kernel: TestKernel, waiting: str) -> None:
    kernel.run(SCRIPTED.format(TICKS))
    ended = kernel.run(f"run = agent.start('Go.')\n{waiting}\nrun.tool_calls[0].state")
    assert ended.value == "'success'"
    after = "before = len(ticks)\nlock.release()\nasync with lock: await asyncio.sleep(0.1)\n"
    assert kernel.value(f"{after}len(ticks) > before, task.done()") == "(True, False)"


def test_a_cell_behind_one_that_waits_runs_after_it(kernel: TestKernel) -> None:
    kernel.run(SCRIPTED.format("import asyncio\nawait asyncio.sleep(0.2)\norder.append(1)"))
    held = kernel.send("_ = agent.run('Go.')\norder.append(2)")
    behind = [kernel.send(f"order.append({number})") for number in (3, 4)]
    for cell in (held, *behind):
        assert kernel.result(cell).ok
    assert kernel.value("order") == "[1, 2, 3, 4]"


def test_a_signal_that_is_not_noticed_is_sent_again(kernel: TestKernel) -> None:
    """One that comes just before the main thread blocks is noticed only afterwards."""
    kernel.run(
        "from agent_kernel.notebook.execution.call_interrupts import own_signal\n"
        "def unnoticed():\n"
        "    own_signal._sent = True\n"
        "    del own_signal.send\n"
        "own_signal.send = unnoticed"
    )
    taken = begin(kernel, "asleep", SLEEP)
    stop(kernel, "asleep")
    kernel.result(taken)


def test_a_call_that_is_sent_again_long_after_its_end_does_not_run_again() -> None:
    calls = Calls()
    for number in (*range(KEPT_CALLS + 2), 0):
        approved = ApprovedCall(f"apr_{number}", f"call_{number}", "run_python", '{"code":"1"}', "digest")
        calls.deposit(OfferCall(call=approved, run_id="run"))
        if (entry := calls.claim(f"apr_{number}")) is not None:
            calls.code_ended(entry)
            calls.finish(entry, CallEnd(status="success"))
    assert entry is None
