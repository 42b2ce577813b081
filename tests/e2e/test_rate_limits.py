"""A service that limits how often it is asked, as a person meets it."""

import re

from playwright.sync_api import Page, expect

from agent_kernel.testing import say
from agent_kernel.testing.wire.reply import rate_limited
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import WrittenModel
from tests.programs import wait_until

LOAD = "%load_ext agent_kernel\nimport agent_kernel as ak"
NEXT_TRY = re.compile(r"Rate limited, next try in (1 min )?\d+ s \(try 2 of 4\)\. Rate limit reached\.")


def test_a_rate_limit_is_said_over_a_reload_and_a_person_tries_now_or_stops(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    limited = rate_limited(retry_after="100")
    model.says(limited, limited, say("It is 42."), limited)
    notebook = open_notebook([LOAD, "%%agent\nWhat is 6 * 7?", "%agent status", "%%agent\nAnd 6 * 9?"])
    notebook.run_through(1)
    bar = page.get_by_role("group", name="Rate limited")
    expect(bar).to_contain_text(NEXT_TRY)

    def status_says_it() -> bool:  # the kernel may hear of it later than the page
        notebook.run(2)
        return "Rate limited, next try in " in notebook.text(2)

    wait_until(status_says_it, "%agent status to say it")
    notebook.save()
    notebook.reload()
    expect(bar).to_contain_text(NEXT_TRY)
    assert len(model.requests()) == 1

    bar.get_by_role("button", name="Try now").click()
    expect(bar.get_by_role("button", name="Try now")).to_be_visible()  # limited again, for another 100 s
    expect(bar).to_contain_text(NEXT_TRY)
    bar.get_by_role("button", name="Try now").click()
    expect(page.locator("[data-role=answer]")).to_contain_text("It is 42.")

    notebook.run(3)
    expect(bar).to_contain_text(NEXT_TRY)
    bar.get_by_role("button", name="Stop").click()
    expect(notebook.record().last).to_contain_text("stopped")
    assert len(model.requests()) == 4
