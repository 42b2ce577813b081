"""A plot that the model sees: on the card, in its request, in its answer, and in what the run cost."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, calls, say
from tests.core.tools.builtin.pictures import size_of
from tests.e2e.conftest import RESULTS, OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.e2e.records import assert_record_is_saved

DRAW = """import matplotlib.pyplot as plt

weeks = range(36, 44)
revenue = [64.1, 65.0, 64.7, 65.8, 51.2, 52.0, 66.1, 66.8]
fig, ax = plt.subplots(figsize=(6.4, 2.2))
ax.plot(weeks, revenue, marker="o")
ax.set(xlabel="week", ylabel="thousand", title="Revenue per week");"""
SEEN = (
    "The plot shows a step, not a trend: revenue falls from 66 to 51 thousand in **week 40**, stays there for two "
    "weeks, and is back at once. That looks like missing orders. I would count them."
)
COUNT = "orders = {39: 1290, 40: 1004, 41: 1012, 42: 1301}\nprint(orders)"
DONE = "Weeks 40 and 41 have **280 fewer orders** than their neighbours, as the plot suggested: an export is missing."
SEEN_LINE = "The model has seen this plot."


@pytest.fixture
def lab(shared_model: WrittenModel, tmp_path: Path) -> Iterator[LabServer]:
    """A lab whose model has a price. The address is a provider's, and the line to it leads to the fake server."""
    proxy = shared_model.server.url.removesuffix("/v1")
    variables = shared_model.server.environment("gpt-5") | {"OPENAI_BASE_URL": "http://lab.openai.azure.com/v1"}
    with LabServer(tmp_path, variables | {"HTTP_PROXY": proxy, "http_proxy": proxy, "NO_PROXY": ""}) as server:
        yield server


def pictures(messages: list[dict[str, Any]]) -> list[tuple[int, int]]:
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [size_of(url.removeprefix("data:image/png;base64,")) for url in urls]


def unfold(notebook: NotebookPage) -> None:
    """A card folds to a line once the next step begins."""
    notebook.card(0).locator("button.ak-head[aria-expanded=false]").click()


def screenshot(notebook: NotebookPage, name: str, cell: int) -> None:
    RESULTS.mkdir(exist_ok=True)
    notebook.page.locator(".jp-Notebook .jp-Cell").nth(cell).screenshot(path=RESULTS / f"{name}.png")


def test_the_model_speaks_of_a_plot_that_it_has_seen_and_the_card_says_so_with_what_it_cost(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(
        calls(call("run_python", call_id="draw", code=DRAW), usage=(1_840, 212)),
        calls(call("run_python", call_id="count", code=COUNT), text=SEEN, usage=(2_610, 148)),
        say(DONE, usage=(2_830, 61)),
    )
    notebook = open_notebook(["%load_ext agent_kernel", "%%agent\nPlot revenue per week. Is something odd about it?"])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    notebook.wait_for_state("awaiting_approval", card=1)
    unfold(notebook)
    expect(notebook.card(0)).to_contain_text(SEEN_LINE)
    expect(page.locator("[data-role=answer]").first).to_contain_text("week 40")
    notebook.save()
    notebook.reload()
    notebook.wait_for_state("awaiting_approval", card=1)
    unfold(notebook)
    expect(notebook.card(0)).to_contain_text(SEEN_LINE)
    assert pictures(model.requests()[0]) == []
    [(width, height)] = pictures(model.requests()[1])
    assert width > height > 100
    expect(page.locator(".ak-run")).to_contain_text(re.compile(r"4\.5k in · 360 out · \$0\.0\d+"))
    notebook.press("Approve", card=1)
    expect(page.locator("[data-role=answer]").last).to_contain_text("280 fewer orders")
    expect(page.get_by_role("group", name="Agent run")).to_contain_text("Complete")
    screenshot(notebook, "a-plot-that-the-model-has-seen-light", 1)
    # A page that was loaded again keeps the cards; the file gets the record.
    assert_record_is_saved(notebook.save(), 1, SEEN_LINE)
