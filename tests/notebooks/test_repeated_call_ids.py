"""Several servers count a model's call ids anew in each conversation. In one kernel none is taken for another's."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

COUNTING = """
import threading
from agent_kernel.testing import ScriptedModel, call, calls, say
import agent_kernel as ak

def asks(*turns, call_id="call_0", tool="run_python"):
    return ScriptedModel([*(call(tool, call_id=call_id, **turn) for turn in turns), say("done")])

def begin(model, policy="allow", **options):
    return ak.Agent(model=model, policy=policy, **options).start("go")

def told(run):
    return run.status, [(one.tool_call_id, one.state, one.result) for one in run.tool_calls]
"""


@pytest.fixture
def counting(kernel: TestKernel) -> TestKernel:
    kernel.run(COUNTING)
    return kernel


@pytest.mark.parametrize("call_id", ["call_0", "functions.run_python:0", "../../x/y", "'\"<b>\\"])
def test_a_second_conversation_with_a_known_call_id_runs_its_own_call(counting: TestKernel, call_id: str) -> None:
    for number in (1, 2):
        counting.run(f"run = begin(asks({{'code': 'print({number})'}}, call_id={call_id!r})).wait(20)")
        assert counting.value("told(run)") == str(("complete", [(call_id, "success", str(number))]))


def test_two_conversations_at_the_same_time_may_have_the_same_call_ids(counting: TestKernel) -> None:
    """The first one's call runs while the second one's is laid down; each answers its own model."""
    counting.run(
        "first = begin(asks({'code': 'shared = [1]\\nprint(\"first\")'}))\n"
        "second = begin(asks({'code': 'print(\"second\")'}))\n"
        "first.wait(20), second.wait(20)"
    )
    assert counting.value("told(first)") == "('complete', [('call_0', 'success', 'first')])"
    assert counting.value("told(second)") == "('complete', [('call_0', 'success', 'second')])"


def test_a_call_that_asks_another_agent_may_have_the_id_of_that_agents_call(counting: TestKernel) -> None:
    nested = "print(told(begin(asks({'code': 'print(42)'})).wait(20)))"
    counting.run(f"run = begin(asks({{'code': {nested!r}}})).wait(20)")
    assert counting.value("run.status, run.tool_calls[0].state") == "('complete', 'success')"
    inner = "('complete', [('call_0', 'success', '42')])"
    assert counting.value(f"{inner!r} in run.tool_calls[0].result") == "True"


def shown_run(kernel: TestKernel, prompt: str, *turns: str) -> Page:
    """The page of a run that asks for all of these calls at once, each of which is asked about."""
    page = Page(kernel, prompt)
    model = f"ScriptedModel([calls({', '.join(turns)}), say('done')])"
    kernel.run(f"run = ak.Agent(model={model}).start({prompt!r})", allow_stdin=True)
    page.open()
    page.until(lambda: len(asked(page)) == len(turns))
    return page


def asked(page: Page) -> dict[str, str]:
    """The approvals that a page was asked for, by the model's id of the call."""
    requests = [frame for frame in page.frames if frame["type"] == "approval_request"]
    return {frame["tool_call_id"]: frame["approval_id"] for frame in requests}


def test_a_decision_on_one_of_two_calls_of_one_id_is_not_the_others(counting: TestKernel) -> None:
    first = shown_run(counting, "first", "call('run_python', call_id='call_0', code='x = 1')")
    second = shown_run(counting, "second", "call('run_python', call_id='call_0', code='print(2)')")
    first.send(type="tool_cancel", tool_call_id="call_0")
    assert first.event("tool_complete")["state"] == "cancelled"
    second.send(type="approval_response", approval_id=asked(second)["call_0"], approved=True)
    assert second.event("tool_complete")["tool_result"] == "2"
    assert counting.value("'x' in dir()") == "False"


def test_each_conversation_takes_back_the_file_of_its_own_call(counting: TestKernel, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("first.md", "second.md")]
    pages = []
    for path in paths:
        path.write_text("old")
        writes = f"call('write_file', call_id='call_0', path={str(path)!r}, content='new')"
        page = shown_run(counting, path.name, writes, "call('run_python', call_id='call_1', code='1')")
        page.send(type="approval_response", approval_id=asked(page)["call_0"], approved=True)
        assert page.event("tool_complete")["undo"]
        pages.append(page)
    assert [path.read_text() for path in paths] == ["new", "new"]
    for page, left in zip(pages, (["old", "new"], ["old", "old"]), strict=True):
        page.send(type="tool_undo", tool_call_id="call_0")
        assert page.event("tool_undone")["tool_call_id"] == "call_0"
        assert [path.read_text() for path in paths] == left


def test_long_outputs_of_calls_with_one_id_stand_in_files_of_their_own(
    start_kernel: Callable[..., TestKernel], tmp_path: Path
) -> None:
    kernel = start_kernel(XDG_CACHE_HOME=str(tmp_path))
    kernel.run(COUNTING)
    for number in (1, 2):
        code = f"print('{number}' * 2_000_000)"
        kernel.run(f"begin(asks({{'code': {code!r}}})).wait(20)")
    texts = [path.read_text() for path in (tmp_path / "agent-kernel" / "outputs").iterdir()]
    assert sorted(text.strip()[0] for text in texts) == ["1", "2"]
    assert [len(text) for text in texts] == [2_000_001, 2_000_001]


def test_after_a_restart_of_the_kernel_its_ids_are_new_ones(counting: TestKernel) -> None:
    counting.run("begin(asks({'code': 'print(1)'})).wait(20)")
    counting.manager.restart_kernel(now=True)
    counting.client.wait_for_ready(timeout=30)
    counting.run(COUNTING)
    counting.run("run = begin(asks({'code': 'print(2)'})).wait(20)")
    assert counting.value("told(run)") == "('complete', [('call_0', 'success', '2')])"
