"""What the tests of an embedded host say to it: in cells, and as its page."""

from typing import Any

from tests.notebooks.page import Page

IMPORTS = "from agent_kernel.testing import ScriptedModel, call, calls, say\nimport agent_kernel as ak\n"
ANSWER = 'model = ScriptedModel([call("run_python", code="x = 6 * 7\\nprint(x)"), say("It is **42**.")])\n'
START = "run = ak.Agent(model=model).start('What is 6 * 7?')"
RUN = "run = ak.Agent(model=model).run('What is 6 * 7?')"


def answer(page: Page, approved: bool, **more: Any) -> None:
    """Decide on the first call that asks."""
    asked = page.event("approval_request")
    page.send(
        type="approval_response",
        approval_id=asked["approval_id"],
        approved=approved,
        digest=asked["digest"],
        **more,
    )


def approve(page: Page) -> None:
    answer(page, True)
