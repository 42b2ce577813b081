"""What a real kernel shows and what a prompt names, as it gets to a model that takes images."""

from typing import Any

import pytest

from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

IMPORTS = """
import agent_kernel as ak
from agent_kernel.notebook.run import state_of
from agent_kernel.models.base import ModelFacts
from agent_kernel.testing import ScriptedModel, call, calls, say
def seeing(*turns): return ScriptedModel(turns, facts=ModelFacts(images=True))
def sizes(request):
    return [(ref["width"], ref["height"], ref["digest"] in request.images)
            for message in request.messages for ref in message.get("images", ())]
"""
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.title('Peak');"
SIZE = "556, 434"
"""Of the inline backend's figure, whose margins are cut."""


@pytest.fixture(scope="module")
def seeing_kernel(shared_kernel: TestKernel) -> TestKernel:
    shared_kernel.run(IMPORTS)
    return shared_kernel


def run(kernel: TestKernel, code: str, then: str = "") -> Any:
    """What the model got after a call of this code."""
    kernel.run(f"model = seeing(call('run_python', code={code!r}), say('I see.'))\n")
    assert kernel.run("run = ak.Agent(model=model, policy='allow').run('Draw.')").ok
    return kernel.value(then or "sizes(model.requests[-1]), run.tool_calls[0].seen_images")


def test_a_matplotlib_plot_goes_to_the_model_and_the_record_says_so(seeing_kernel: TestKernel) -> None:
    assert run(seeing_kernel, PLOT) == f"([({SIZE}, True)], 1)"
    seeing_kernel.run("model = seeing(call('run_python', code='plt.plot([1]); plt.show()'), say('I see.'))")
    cell = seeing_kernel.run("_ = ak.Agent(model=model, policy='allow').run('Draw.')")
    for kind in ("text/plain", "text/html"):
        assert any("The model has seen this plot." in (shown or "") for shown in cell.shown(kind)), kind
