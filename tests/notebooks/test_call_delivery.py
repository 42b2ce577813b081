"""How a call reaches the main thread, and how it is stopped, in a real kernel."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.protocol.calls import ApprovedCall
from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

COUNT = "counter = globals().get('counter', 0) + 1"


def test_the_users_cells_interleave_with_calls(kernel: TestKernel) -> None:
    kernel.deposit("queued", code="order.append('call')")
    cells = [kernel.send("order = ['first']"), kernel.take("queued"), kernel.send("order")]
    assert all(kernel.result(cell).ok for cell in cells[:2])
    assert kernel.result(cells[2]).value == "['first', 'call']"


def test_an_interrupt_stops_only_the_call_that_runs(kernel: TestKernel) -> None:
    kernel.deposit("sleeper", code="import time\nprint('going')\ntime.sleep(60)")
    taken = kernel.take("sleeper")
    after = kernel.send("'the next cell'")
    kernel.until("sleeper", "running")
    assert kernel.request("interrupt", approval_id="another")["value"] is False
    began = time.monotonic()
    while not kernel.collect("sleeper")["outputs"]:
        assert time.monotonic() < began + 30
    assert kernel.request("interrupt", approval_id="sleeper")["value"] is True
    outcome = kernel.until("sleeper", "done")["outcome"]
    assert time.monotonic() - began < 30
    assert outcome["status"] == "cancelled"
    assert outcome["content"].startswith("going\n")
    assert kernel.result(taken).ok
    assert kernel.result(after).value == "'the next cell'"


@pytest.mark.parametrize("code", ["await asyncio.sleep(60)", "await asyncio.sleep(0)\nimport time\ntime.sleep(60)"])
def test_an_interrupt_stops_a_call_that_awaits(kernel: TestKernel, code: str) -> None:
    name = f"awaits {code}"
    kernel.deposit(name, code=f"import asyncio\nprint('going')\n{code}")
    taken = kernel.take(name)
    while not kernel.collect(name)["outputs"]:
        time.sleep(0.01)
    assert kernel.request("interrupt", approval_id=name)["value"] is True
    assert kernel.until(name, "done")["outcome"]["status"] == "cancelled"
    assert kernel.result(taken).ok
    assert kernel.value("'alive'") == "'alive'"


def test_a_call_that_waits_can_be_withdrawn_and_then_never_runs(kernel: TestKernel) -> None:
    kernel.deposit("withdrawn", code="ran_anyway = True")
    assert kernel.request("interrupt", approval_id="withdrawn")["value"] is True
    kernel.result(kernel.take("withdrawn"))
    assert kernel.collect("withdrawn")["outcome"]["status"] == "cancelled"
    assert kernel.value("'ran_anyway' in globals()") == "False"


def test_a_call_runs_once_however_often_it_is_sent(kernel: TestKernel) -> None:
    kernel.run("counter = 0")
    for _ in range(3):
        kernel.deposit("repeated", code=COUNT)
    takes = [kernel.take("repeated") for _ in range(3)]
    for taken in takes:
        kernel.result(taken)
    kernel.deposit("repeated", code=COUNT)
    kernel.result(kernel.take("repeated"))
    assert kernel.value("counter") == "1"


def test_a_call_that_is_deposited_while_the_main_thread_runs_it_runs_once(kernel: TestKernel, tmp_path: Path) -> None:
    """The server sends it to a busy kernel on both channels, which the kernel reads in two threads."""
    go_on = tmp_path / "go on"
    code = f"{COUNT}\nimport os, time\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.01)"
    kernel.run("counter = 0")
    kernel.approve("both ways", code=code)
    taken = kernel.take("both ways")
    kernel.until("both ways", "running")
    kernel.deposit("both ways", code=code)
    assert kernel.collect("both ways")["state"] == "running"
    go_on.touch()
    assert kernel.until("both ways", "done")["outcome"]["status"] == "success"
    assert kernel.result(taken).ok
    assert kernel.value("counter") == "1"


def test_a_call_runs_where_cells_can_not_await(kernel: TestKernel) -> None:
    kernel.run("%autoawait off")
    kernel.approve("no await", code="import asyncio\nprint(asyncio.get_running_loop() is not None)")
    kernel.result(kernel.take("no await"))
    assert kernel.collect("no await")["outcome"]["content"] == "True"
    kernel.run("%autoawait on")


def test_a_signal_that_is_not_noticed_is_sent_again(kernel: TestKernel) -> None:
    """One that comes just before the main thread blocks is noticed only afterwards."""
    kernel.run(
        "from agent_kernel.notebook.execution.call_interrupts import own_signal\n"
        "def unnoticed():\n"
        "    own_signal._sent = True\n"
        "    del own_signal.send\n"
        "own_signal.send = unnoticed"
    )
    name = "asleep"
    kernel.approve(name, code="import time\nprint('asleep')\ntime.sleep(60)")
    taken = kernel.take(name)
    while not kernel.collect(name)["outputs"]:
        time.sleep(0.01)
    assert kernel.request("interrupt", approval_id=name)["value"] is True
    assert kernel.until(name, "done")["outcome"]["status"] == "cancelled"
    kernel.result(taken)


@pytest.mark.parametrize("waiting", ["run.wait()", "await run"])
def test_a_waiting_cell_runs_the_calls_itself_and_each_once(kernel: TestKernel, waiting: str) -> None:
    """The message to the main thread that follows each deposit queues behind the waiting cell, and finds nothing to
    do."""
    kernel.run(
        "from agent_kernel.protocol.kernel import RunDeclaration\n"
        "from agent_kernel.notebook.run import Run\n"
        "from agent_kernel.notebook.kernel.run_state import RunState\n"
        "from agent_kernel.notebook.kernel.state import kernel_state\n"
        "class Host:\n"
        "    blocks = False\n"
        "    def start(self, run): pass\n"
        "    def cancel(self, run, cause): pass\n"
        "    def on_end(self, end): pass\n"
        "    def on_waited(self, run, end): pass\n"
        "state = RunState(Host(), RunDeclaration(run_id='r', conversation_id='c', prompt='p'), (), number=1)\n"
        "kernel_state().add_run(state); run = Run(kernel_state(), state); counter = 0; loop_saw = []"
    )
    beside = "import asyncio; task = asyncio.get_running_loop().call_later(0.01, loop_saw.append, 1)\n"
    beside = f"{beside if 'await' in waiting else ''}get_ipython().set_next_input('# its own')\n"
    cell = kernel.send(f"{beside}{waiting}\ncounter")
    takes = []
    for number in range(5):
        code = f"{COUNT}\nprint(counter)" if number % 2 else f"import asyncio\nawait asyncio.sleep(0)\n{COUNT}"
        kernel.deposit(f"w{number}", code=code)
        takes.append(kernel.take(f"w{number}"))
        assert kernel.until(f"w{number}", "done")["outcome"]["status"] == "success"
    kernel.deposit("pages", code="get_ipython().set_next_input('a call')\nlen?")
    takes.append(kernel.take("pages"))
    assert "Return the number of items" in kernel.until("pages", "done")["outcome"]["content"]
    kernel.deposit("slow", code="import time; time.sleep(60)")
    kernel.until("slow", "running")
    assert kernel.request("interrupt", approval_id="slow")["value"] is True
    assert kernel.until("slow", "done")["outcome"]["status"] == "cancelled"
    view: dict[str, Any] = {"run_id": "r", "conversation_id": "c", "prompt": "p", "status": "complete", "model": "m"}
    view |= {"recorded": False, "policy": {"mode": "ask"}, "usage": {}, "budget": {}, "started_at": ""}
    ended = kernel.request("finish", result={"run": view, "text": "done", "messages": [], "tool_calls": []})
    assert ended["ok"], ended
    result = kernel.result(cell)
    assert result.value == "5"
    assert result.streams() == ""
    assert [payload["text"] for payload in result.reply["payload"]] == ["# its own"]
    for taken in takes:
        assert kernel.result(taken).ok
    assert kernel.value("counter, run.status, run.text") == "(5, 'complete', 'done')"
    if "await" in waiting:
        assert kernel.value("loop_saw") == "[1]"


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


def test_a_search_that_never_ends_is_stopped_like_any_call(kernel: TestKernel, tmp_path: Path) -> None:
    """Its pattern is the model's, and nobody was asked."""
    (tmp_path / ("a" * 100)).write_text("a" * 100 + "\n")
    kernel.run(
        f"from pathlib import Path; import agent_kernel.notebook.offered_tools as t; t.FOLDER = Path({str(tmp_path)!r})"
    )
    kernel.deposit("searching", "search_files", query=r"(.|.)*\x00", regex=True)
    taken = kernel.take("searching")
    kernel.until("searching", "running")
    assert kernel.request("interrupt", approval_id="searching")["value"] is True
    assert kernel.until("searching", "done")["outcome"]["status"] == "cancelled"
    assert kernel.result(taken).ok
    assert kernel.value("'alive'") == "'alive'"


TICKS = "import asyncio\nticks = []\nasync def tick():\n    while True: ticks.append(1); await asyncio.sleep(0.01)\n"
TICKS += "lock = asyncio.Lock()\nawait lock.acquire()\ntask = asyncio.create_task(tick())"


@pytest.mark.parametrize("waiting", ["run.wait()", "await run"])
def test_a_task_that_a_call_leaves_ticks_on_after_the_cell_that_waited(kernel: TestKernel, waiting: str) -> None:
    kernel.run(
        "import asyncio, agent_kernel as ak\nfrom agent_kernel.testing import ScriptedModel, call, say\n"
        f"code = {TICKS!r}\n"
        "model = ScriptedModel([call('run_python', code=code), say('Done.')])"
    )
    ended = kernel.run(f"run = ak.Agent(model=model, policy='allow').start('Go.')\n{waiting}\nrun.tool_calls[0].state")
    assert ended.value == "'success'"
    after = "before = len(ticks)\nlock.release()\nasync with lock: await asyncio.sleep(0.1)\n"
    assert kernel.value(f"{after}len(ticks) > before, task.done()") == "(True, False)"


def test_a_cell_behind_one_that_waits_runs_after_it(kernel: TestKernel) -> None:
    kernel.run(
        "import agent_kernel as ak\nfrom agent_kernel.testing import ScriptedModel, call, say\norder = []\n"
        "code = 'import asyncio\\nawait asyncio.sleep(0.2)\\norder.append(1)'\n"
        "model = ScriptedModel([call('run_python', code=code), say('Done.')])"
    )
    held = kernel.send("_ = ak.Agent(model=model, policy='allow').run('Go.')\norder.append(2)")
    behind = [kernel.send(f"order.append({number})") for number in (3, 4)]
    for cell in (held, *behind):
        assert kernel.result(cell).ok
    assert kernel.value("order") == "[1, 2, 3, 4]"
