"""A stored outcome on a card, and the way to a new one."""

from playwright.sync_api import expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel

TOOL = '''import agent_kernel as ak
asked = 0
@ak.tool(approval="allow", read_only=True, cache=True)
def rates(day: str) -> str:
    """The rates of a day."""
    global asked
    asked += 1
    return f"asked {asked} times"
agent = ak.Agent(tools=[rates])
run = agent.start("Rates?")'''


def test_a_stored_outcome_says_so_and_runs_again_when_asked(open_notebook: OpenNotebook, model: WrittenModel) -> None:
    stored, ask = Gate(say("The same.")), call("rates", day="today")
    model.says(ask, ask, stored, ask, say("A new one."))
    notebook = open_notebook(["%load_ext agent_kernel", TOOL])
    notebook.run_through(1)
    notebook.wait_for_state("success", card=1)
    expect(notebook.card(1)).to_contain_text("from less than a minute ago")
    expect(notebook.card(1)).to_contain_text("asked 1 times")

    notebook.press("Run again", card=1)
    stored.open()
    expect(notebook.record()).to_contain_text("A new one.")
    expect(notebook.record()).to_contain_text("asked 2 times")
    expect(notebook.record()).to_contain_text("from less than a minute ago")
