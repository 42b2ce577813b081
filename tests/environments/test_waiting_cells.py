"""A cell that waits for a run, with no server: its page is heard meanwhile, on each ipykernel that is taken.

The other cells and their order are as if it were any long cell.
"""

import itertools

import pytest

from tests.environments.embedded import RUN, START, approve
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


def test_stop_ends_the_call_that_runs_in_the_cell(kernel: TestKernel) -> None:
    code = "import time\nprint('runs')\ntime.sleep(600)"
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
