"""A cell that waits for a run, with no server: its page is heard meanwhile, on each ipykernel that is taken.

The other cells and their order are as if it were any long cell.
"""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.environments.embedded import RUN, START, answer, approve
from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.soak]

WAITS = {
    "run": f"{RUN}\nrun.text",
    "wait": f"{START}\nrun.wait().text",
    "await": f"{START}\n(await run).text",
    "await in a task": f"import asyncio\n{START}\n(await asyncio.gather(run))[0].text",
    "wait in an async cell": f"{START}\nimport asyncio\nawait asyncio.sleep(0)\nrun.wait().text",
}
RECORDED_PROMPT = "Save the penguins that have no missing value to `penguins_complete.csv`."
ANSWERED = "'It is **42**.'"


@pytest.mark.parametrize("code", WAITS.values(), ids=WAITS)
def test_a_click_counts_while_the_cell_waits(kernel: TestKernel, code: str) -> None:
    page = Page(kernel)
    cell = kernel.send(code, allow_stdin=True)
    page.open()
    approve(page)
    assert page.event("complete")["finish_reason"] == "stop"
    printed = [frame["output"]["text"] for frame in page.frames if frame["type"] == "tool_output"]
    assert "".join(printed) == "42\n"
    assert [frame["seq"] for frame in page.frames] == list(range(1, len(page.frames) + 1))
    assert "data-agent-record" in page.record()["data"]["text/html"]
    assert kernel.result(cell).value == ANSWERED
    assert kernel.value("x") == "42"


def test_the_magic_holds_its_cell(kernel: TestKernel) -> None:
    kernel.run("%load_ext agent_kernel")
    page = Page(kernel)
    cell = kernel.send(f"%%agent --model demo\n{RECORDED_PROMPT}", allow_stdin=True)
    after = kernel.send("ak.last_run().status")
    page.open()
    page.send(type="cancel", run_id=page.event("approval_request")["run_id"])
    assert kernel.result(cell).reply["status"] == "ok"
    assert kernel.result(after).value == "'cancelled'"


def test_a_later_wait_takes_the_click_for_a_card_that_was_there_before(kernel: TestKernel) -> None:
    page = Page(kernel)
    kernel.run(START, allow_stdin=True)
    page.open()
    page.event("approval_request")
    cell = kernel.send("run.wait().text", allow_stdin=True)
    approve(page)
    assert kernel.result(cell).value == ANSWERED


def test_a_call_can_be_denied_while_the_cell_waits(kernel: TestKernel) -> None:
    page = Page(kernel)
    cell = kernel.send(f"{RUN}\nrun.tool_calls[0].state, run.tool_calls[0].reason", allow_stdin=True)
    page.open()
    answer(page, False, reason="not now")
    assert kernel.result(cell).value == "('denied', 'not now')"


def test_a_call_can_be_edited_while_the_cell_waits(kernel: TestKernel) -> None:
    page = Page(kernel)
    cell = kernel.send(f"{RUN}\nx", allow_stdin=True)
    page.open()
    answer(page, True, edited_input={"code": "x = 'edited'"})
    assert kernel.result(cell).value == "'edited'"


def test_a_question_of_the_model_is_answered_while_the_cell_waits(kernel: TestKernel) -> None:
    kernel.run("model = ScriptedModel([call('ask_user', question='Which?'), say('Thanks.')])")
    page = Page(kernel)
    cell = kernel.send(f"{RUN}\nrun.tool_calls[0].result", allow_stdin=True)
    page.open()
    page.send(type="tool_result", tool_call_id=page.event("tool_start")["tool_call_id"], output="the second")
    assert kernel.result(cell).value == "'the second'"


def test_a_pause_at_the_budget_is_answered_while_the_cell_waits(kernel: TestKernel) -> None:
    kernel.run(
        "turns = [call('run_python', code='seen = [1]'), call('run_python', code='seen.append(2)'), say('Twice.')]\n"
        "agent = ak.Agent(model=ScriptedModel(turns), policy='allow', budget=ak.Budget(tool_calls=1))"
    )
    page = Page(kernel)
    cell = kernel.send("agent.run('Look twice.').text, seen", allow_stdin=True)
    page.open()
    paused: list[dict[str, Any]] = []

    def pauses() -> bool:
        paused[:] = [frame["run"] for frame in page.frames if frame["type"] == "run" and frame["run"]["paused"]]
        return bool(paused)

    page.until(pauses)
    page.send(
        type="budget", run_id=paused[0]["run_id"], pause_id=paused[0]["paused"]["pause_id"], add={"tool_calls": 5}
    )
    assert kernel.result(cell).value == "('Twice.', [1, 2])"


def test_stop_counts_while_the_cell_waits_for_an_answer(kernel: TestKernel) -> None:
    page = Page(kernel)
    cell = kernel.send(f"{RUN}\nrun.status", allow_stdin=True)
    page.open()
    page.send(type="cancel", run_id=page.event("approval_request")["run_id"])
    assert kernel.result(cell).value == "'cancelled'"


def test_stop_counts_when_the_call_that_runs_has_ended_or_ends_it(
    kernel: TestKernel, version: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    code = f"import os, time\nprint('runs')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    kernel.run(
        "import asyncio\n"
        "async def thinks(request):\n"
        "    await asyncio.sleep(600)\n"
        "    yield say('Never.')\n"
        f"model = ScriptedModel([call('run_python', code={code!r}), thinks])"
    )
    page = Page(kernel)
    cell = kernel.send(f"{RUN}\nrun.status, len(run.tool_calls)", allow_stdin=True)
    page.open()
    approve(page)
    page.event("tool_output")
    page.send(type="cancel", run_id=page.event("approval_request")["run_id"])
    if version.startswith("6."):
        gate.touch()
    assert kernel.result(cell).value == "('cancelled', 1)"


@pytest.mark.parametrize("code", [WAITS["wait"], WAITS["await"]], ids=["wait", "await"])
def test_cells_behind_it_run_after_it_in_their_order_and_once(kernel: TestKernel, code: str) -> None:
    kernel.run("ran = []")
    page = Page(kernel)
    first = kernel.send(f"{code}\nran.append(run.status)", allow_stdin=True)
    later = [kernel.send(f"ran.append({number}); ran") for number in range(3)]
    page.open()
    later.append(kernel.send("ran.append('sent while a page was heard'); ran"))
    approve(page)
    page.event("complete")
    assert kernel.result(first).reply["status"] == "ok"
    whole = ["complete", 0, 1, 2, "sent while a page was heard"]
    assert [kernel.result(cell).value for cell in later] == [repr(whole[: count + 2]) for count in range(4)]
    counts = [kernel.result(cell).reply["execution_count"] for cell in (first, *later)]
    assert [b - a for a, b in itertools.pairwise(counts)] == [1, 1, 1, 1]
    assert kernel.value("ran") == repr(whole)


@pytest.mark.parametrize("wait", ["run.wait()", "await run"])
def test_an_interrupt_of_the_waiting_cell_ends_its_run_and_aborts_the_cells_behind_it(
    kernel: TestKernel, wait: str
) -> None:
    kernel.run("behind = []")
    page = Page(kernel)
    kernel.run(START, allow_stdin=True)
    page.open()
    cell = kernel.send(f"print('waits', flush=True)\n{wait}", allow_stdin=True)
    behind = kernel.send("behind.append(1)")
    kernel.printed(cell, "waits")
    page.resume(0)
    seen = len(page.frames)
    page.until(lambda: len(page.frames) > seen)  # the cell hears the page: it waits
    kernel.manager.interrupt_kernel()
    assert kernel.result(cell).reply["ename"] == "KeyboardInterrupt"
    assert kernel.result(behind).reply["status"] == "aborted"
    assert kernel.value("run.wait(40).status, behind") == "('cancelled', [])"


def test_a_wait_that_fails_aborts_the_cells_behind_it_and_the_card_can_still_be_answered(kernel: TestKernel) -> None:
    kernel.run("behind = []")
    page = Page(kernel)
    kernel.run(START, allow_stdin=True)
    page.open()
    cell = kernel.send("run.wait(timeout=3)", allow_stdin=True)
    behind = [kernel.send(f"behind.append({number})") for number in range(3)]
    assert kernel.result(cell).reply["ename"] == "TimeoutError"
    assert [kernel.result(message).reply["status"] for message in behind] == ["aborted"] * 3
    approve(page)
    page.event("complete")
    assert kernel.value("run.wait(40).text, behind") == f"({ANSWERED}, [])"


def test_where_no_page_answers_a_waiting_cell_the_call_is_denied(kernel: TestKernel) -> None:
    kernel.run("import agent_kernel.notebook.hosts.embedded as embedded\nembedded.CLIENT_SECONDS = 0.2")
    cell = kernel.run(f"{RUN}\nrun.tool_calls[0].reason", allow_stdin=True)
    assert "Nobody could be asked" in cell.value
    kernel.run("embedded.CLIENT_SECONDS = 10.0")


def test_a_run_inside_a_tool_call_is_waited_for_and_answered_too(kernel: TestKernel) -> None:
    kernel.run(
        "@ak.tool(approval='allow')\n"
        "def ask_another(question: str) -> str:\n"
        "    'Ask another agent.'\n"
        "    found = ak.Agent(model=model).run(question).text\n"
        "    print('found')\n"
        "    return found\n"
        "outer = ScriptedModel([call('ask_another', question='What is 6 * 7?'), say('Done.')])"
    )
    page = Page(kernel, "What is 6 * 7?")
    cell = kernel.send("run = ak.Agent(model=outer, tools=[ask_another]).run('go')\nrun.text, x", allow_stdin=True)
    page.open()
    approve(page)
    assert kernel.result(cell).value == "('Done.', 42)"
    assert kernel.result(cell).streams() == ""
    printed, *_, last = kernel.run("print(run.tool_calls[0].result)").streams().splitlines()
    assert (printed, last) == ("found", "It is **42**.")


def test_a_plot_that_the_cell_has_begun_is_shown_by_the_cell_when_it_has_ended(kernel: TestKernel) -> None:
    kernel.run("%matplotlib inline\nimport matplotlib.pyplot as plt")
    page = Page(kernel)
    cell = kernel.send(f"_ = plt.plot([1, 2])\n{RUN}", allow_stdin=True)
    page.open()
    approve(page)
    shown = [content["data"] for kind, content in kernel.result(cell).outputs if kind == "display_data"]
    assert ["image/png" in data for data in shown] == [False] * (len(shown) - 1) + [True], "the plot is the last"


def test_a_thread_that_waits_receives_nothing_itself_and_needs_not(kernel: TestKernel) -> None:
    page = Page(kernel)
    waiter = "import threading\nwaiter = threading.Thread(target=run.wait)\nwaiter.start()"
    kernel.run(f"{START}\n{waiter}", allow_stdin=True)
    page.open()
    approve(page)
    page.event("complete")
    assert kernel.value("waiter.join(10), waiter.is_alive(), x") == "(None, False, 42)"
