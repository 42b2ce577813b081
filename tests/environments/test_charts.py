"""Charts, tables and maps of libraries that people install: a call's are kept and drawn as a cell's own are."""

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import say
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import Gate, WrittenModel, run_calls
from tests.environments.versions import python_beside

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(900)]

LIBRARIES = (
    *("--no-deps", "altair>=6,<7", "folium>=0.20,<1", "branca", "itables>=2.5,<3"),
    *("ipyleaflet>=0.20,<1", "jupyter-leaflet>=0.20,<1", "traittypes", "xyzservices"),
)
DATA = "import pandas as pd\ndata = pd.DataFrame({'kind': ['x', 'y'], 'count': [1, 2]})\n"
CHART = "altair.Chart(data).mark_bar().encode(x='kind', y='count')"
CHARTS = f"{DATA}import altair\naltair.renderers.enable('mimetype')\n{CHART}"
DRAWN = {
    "iframe": "import folium\nfolium.Map([45.5, -122.7])",
    ".dt-container": f"{DATA}import itables\nitables.init_notebook_mode(connected=False)\nitables.show(data)",
    ".leaflet-container": "import ipyleaflet\nipyleaflet.Map(center=(45, 0), zoom=3)",
}
"""Code, by what a page has of it once it is drawn. JupyterLab has no renderer of its own for Altair 6."""
CODES = [*DRAWN.values(), CHARTS]


@pytest.fixture
def lab(model: WrittenModel, tmp_path: Path) -> Iterator[LabServer]:
    home = Path(python_beside("charts", *LIBRARIES)).parents[1]
    packages = sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)})
    extensions = os.pathsep.join([f"{home}/share/jupyter", f"{sys.prefix}/share/jupyter"])
    variables = {**model.server.environment(), "PYTHONPATH": packages, "JUPYTER_PATH": extensions}
    with LabServer(tmp_path, variables) as server:
        yield server


def test_a_call_draws_what_a_cell_draws_and_the_notebook_keeps_it(
    lab: LabServer, model: WrittenModel, page: Page
) -> None:
    end = Gate(say("There they are."))
    path = lab.write_notebook("charts.ipynb", ["%load_ext agent_kernel", "%%agent --policy allow\nShow.", *CODES])
    notebook = NotebookPage(lab, page, path)
    run_calls(notebook, model, end, *CODES)
    for number in range(len(CODES)):
        notebook.run(number + 2)
    cells = page.locator(".jp-Notebook .jp-CodeCell")
    for number, drawn in enumerate(DRAWN):
        expect(cells.nth(number + 2).locator(drawn)).to_be_visible()
        expect(notebook.card(number).locator(drawn)).to_be_visible()
    end.open()
    expect(notebook.record()).to_contain_text("There they are.")
    for drawn in DRAWN:
        expect(cells.nth(1).locator(drawn)).to_be_visible()
    agent, *own = notebook.save().cells[1:]
    assert [kinds(output) for output in agent.outputs[1:]] == [kinds(one) for cell in own for one in cell.outputs]
    notebook.reload()
    for drawn in DRAWN:
        expect(cells.nth(1).locator(drawn)).to_be_visible()


def kinds(output: dict[str, dict[str, str]]) -> list[str]:
    return sorted(kind.replace(".v6.json", ".v6+json") for kind in output["data"])
