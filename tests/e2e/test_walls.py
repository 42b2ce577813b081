"""A command that the walls have stopped, and the way outside."""

import pytest
from playwright.sync_api import expect

from agent_kernel.testing import call, say
from agent_kernel.tools.walls.probe import found_walls
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel


@pytest.mark.skipif(found_walls().kind == "none", reason="this machine has no walls")
def test_a_command_that_the_walls_stopped_is_run_outside_once(open_notebook: OpenNotebook, model: WrittenModel) -> None:
    command = "touch /usr/made-by-agent-kernel"
    told, answer = Gate(say("It may not.")), Gate(say("You said no."))
    again = call("run_shell", command=command, outside=True)
    model.says(call("run_shell", command=command), told, again, answer)
    notebook = open_notebook(["%load_ext agent_kernel", "%%agent\nMake it."])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    expect(notebook.card()).to_contain_text("walls: workspace (")
    notebook.press("Approve")
    notebook.wait_for_state("error")
    expect(notebook.card()).to_contain_text("stopped by the walls: touch: ")
    expect(notebook.card().get_by_text("walls: workspace (")).to_have_count(1)  # not said again by the failure

    notebook.press("Run outside once")
    told.open()
    notebook.wait_for_state("awaiting_approval", card=1)
    expect(notebook.card(1)).to_contain_text("walls: none (it runs outside).")
    notebook.press("Deny", card=1)
    notebook.page.keyboard.press("Enter")
    notebook.wait_for_state("denied", card=1)
    answer.open()
    expect(notebook.record()).to_contain_text("You said no.")
    expect(notebook.record()).to_contain_text("walls: none (it runs outside).")
