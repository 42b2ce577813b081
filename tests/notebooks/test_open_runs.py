"""`%agent status`, `show`, `stop` and the like, with runs that are open. The runtime is in the kernel."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.notebooks.kernel import Cell, TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

SCRIPTED = (
    "%load_ext agent_kernel\n"
    "from agent_kernel.testing import ScriptedModel, call, say\n"
    "import agent_kernel as ak\n"
    "agent = ak.Agent(model=ScriptedModel([call('run_python', code='x = 1'), say('Done.'), say('And done.')]))\n"
)
VIEW = "application/vnd.jupyter.widget-view+json"


class OpenRuns(Page):
    """A page with a run that waits for a decision, and another behind it."""

    cell: Cell


@pytest.fixture
def page(kernel: TestKernel) -> OpenRuns:
    kernel.run(SCRIPTED)
    page = OpenRuns(kernel, "Plot it.\nIn blue.")
    page.cell = kernel.result(kernel.send("first = agent.start('Plot it.\\nIn blue.')", allow_stdin=True))
    page.open()
    page.event("approval_request")
    kernel.result(kernel.send("second = agent.start('A table.')", allow_stdin=True))
    return page


def test_show_brings_the_same_cards_into_the_cell_and_the_record_follows(page: OpenRuns) -> None:
    shown = [data for data in page.kernel.run("%agent show").shown(VIEW) if data]
    assert [one["model_id"] for one in shown][:1] == [data["model_id"] for data in page.cell.shown(VIEW)]
    assert len(shown) == 2
    approval = page.event("approval_request")
    page.send(type="approval_response", approval_id=approval["approval_id"], approved=True)
    page.kernel.run("for run in ak.runs(): run.wait(20)")
    page.until(lambda: len(page.records) >= 2)
    assert page.kernel.value("[run.text for run in ak.runs()]") == "['Done.', 'And done.']"


def test_status_says_what_is_open_and_stop_ends_all(page: OpenRuns) -> None:
    said = page.kernel.run("%agent status").streams()
    assert said.splitlines()[:2] == ["  Waiting for you (Run Python): Plot it. In blue.", "  Queued: A table."]
    assert "%agent show brings the cards here." in said
    assert page.kernel.run("%agent stop").streams() == "Stopped: Plot it. In blue.\nStopped: A table.\n"
    assert page.kernel.value("[run.wait(20).status for run in ak.runs()]") == "['cancelled', 'cancelled']"
    history = page.kernel.run("%agent history").streams()
    assert history == "  cancelled: Plot it. In blue.\n  cancelled: A table.\n"


def test_a_rule_for_all_notebooks_lasts_longer_than_its_kernel(
    start_kernel: Callable[..., TestKernel], tmp_path: Path
) -> None:
    data = {"JUPYTER_DATA_DIR": str(tmp_path)}
    first = start_kernel(**data)
    first.run(SCRIPTED)
    page = Page(first, "Count.")
    cell = first.send("agent.run('Count.')", allow_stdin=True)
    page.open()
    approval = page.event("approval_request")
    page.send(type="approval_response", approval_id=approval["approval_id"], approved=True, scope="user")
    first.result(cell)
    first.close()
    kept = tmp_path / "agent-kernel" / "rules-of-kernels.sqlite"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600

    second = start_kernel(**data)
    second.run(SCRIPTED)
    second.run("run = agent.run('Count.')")
    assert second.value("[(call.state, call.by) for call in run.tool_calls]") == "[('success', 'policy')]"
    assert "   1  allow run_python (all notebooks, saved on 20" in second.run("%agent rules").streams()
    assert second.run("%agent rules remove 1").streams().startswith("Removed: allow run_python.")
    second.run("agent = ak.Agent(model=ScriptedModel([call('run_python', code='x = 2'), say('Done.')]))")
    second.run("run = agent.run('Again.')")
    assert second.value("[call.state for call in run.tool_calls]") == "['denied']"
