"""What a user finds on a `Run`, an `Agent` and the package: what they may call, and no more."""

import pydoc

import pytest

import agent_kernel
from agent_kernel.notebook.run import Run
from tests.notebooks.kernel import TestKernel

OF_A_RUN = (
    "cancel conversation_id done error finish_reason messages metrics prompt run_id show_here status text to_cells "
    "tool_calls undo usage wait"
)
OF_THE_PACKAGE = "Agent Budget Policy Run ScriptedDecision Tool __version__ answer approve deny edit last_run runs tool"
pytestmark = [pytest.mark.kernel, pytest.mark.slow]


def test_each_name_of_the_package_and_of_a_run_says_what_it_is() -> None:
    assert " ".join(dir(agent_kernel)) == OF_THE_PACKAGE
    assert all(getattr(agent_kernel, name) is not None for name in dir(agent_kernel))
    public = [name for name in dir(Run) if not name.startswith("_")]
    assert " ".join(public) == OF_A_RUN
    assert [name for name in public if not getattr(Run, name).__doc__] == []
    helped = pydoc.render_doc(Run, renderer=pydoc.plaintext)
    assert "One run of an agent: a prompt, the calls that were made for it, and the answer." in helped


def test_an_agent_that_is_asked_in_a_subshell_works_as_elsewhere(kernel: TestKernel) -> None:
    model = "model = ScriptedModel([call('run_python', code='x = 42'), say('Done.')])"
    kernel.run(f"import agent_kernel as ak\nfrom agent_kernel.testing import ScriptedModel, call, say\n{model}")
    cell = kernel.run_in_subshell("run = ak.Agent(model=model, policy='allow').run('Go').wait(60)\nprint(run.status)")
    assert cell.streams() == "complete\n"
    [record] = cell.shown()
    assert "Done." in record, "in the cell that asked"
    assert kernel.value("run.text, x") == "('Done.', 42)"
