"""What a run's calls have shown stays with the notebook, and is drawn from its file when it is opened again."""

from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from playwright.sync_api import Locator, expect

from agent_kernel.protocol.vocabulary import RESULT_MARK
from tests.e2e.conftest import OpenNotebook, take_pictures
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import Gate, WrittenModel, run_calls
from tests.e2e.records import WIDGET

CHART = "import plotly.express as px\npx.bar(x=['a', 'b', 'c'], y=[1, 3, 2], title='Weights')"
STYLED = (
    "import pandas as pd\npd.DataFrame({'a': [1, 2]}).style.set_properties(**{'background-color': 'rgb(255, 200, 0)'})"
)
TABLE = "import pandas as pd\npd.DataFrame({'fruit': ['apple', 'pear'], 'weight': [3, 5]})"
FORMULA = "from IPython.display import Math\nMath(r'\\frac{a}{b}')"
DRAWING = (
    "from IPython.display import SVG\n"
    'SVG(\'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><circle r="20" fill="green"/></svg>\')'
)
PICTURE = "import matplotlib.pyplot as plt\nplt.figure(figsize=(3, 1.5)).gca().plot([1, 3, 2])\nplt.show()"
SLIDER = "import ipywidgets\nslider = ipywidgets.IntSlider(value=3)\nslider"
INTERACT = "interaction = ipywidgets.interact(lambda x: print('x is', x), x=3)"
PROGRESS = "from tqdm.auto import tqdm\nfor _ in tqdm(range(80)): pass"
ROWS = (
    "pd.set_option('display.max_rows', None)\n"
    "pd.DataFrame({name: range(5_000) for name in ('one', 'two', 'three', 'four')})"
)
ALL = [CHART, STYLED, TABLE, FORMULA, DRAWING, PICTURE, SLIDER, INTERACT, PROGRESS, ROWS]
CELLS = ["%load_ext agent_kernel", "%%agent --policy allow\nShow it.", "slider.value"]
TRUSTED = "() => window.jupyterapp.shell.currentWidget.content.widgets.every(cell => cell.model.trusted)"


def results(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [output for output in outputs if RESULT_MARK in output.get("metadata", {})]


def calls_of(outputs: list[dict[str, Any]]) -> list[int]:
    return [output["metadata"][RESULT_MARK]["call"] for output in results(outputs)]


def cell(notebook: NotebookPage) -> Locator:
    return notebook.page.locator(".jp-Notebook .jp-CodeCell").nth(1).locator(".jp-Cell-outputWrapper")


def assert_drawn(outputs: Locator) -> None:
    """Chart, table with its colours, table, formula, drawing and picture: by the notebook's own renderers."""
    chart = outputs.locator(".jp-RenderedPlotly")
    chart.hover()  # Plotly's renderer shows a saved chart as a picture until then
    expect(chart.locator(".main-svg").first).to_be_visible()
    expect(chart).to_contain_text("Weights")
    expect(outputs.locator("td", has_text="1").first).to_have_css("background-color", "rgb(255, 200, 0)")
    expect(outputs.locator("td", has_text="pear")).to_be_visible()
    expect(outputs.locator(".jp-RenderedLatex mjx-container")).to_be_visible()
    expect(outputs.locator(".jp-RenderedSVG img")).to_be_visible()
    expect(outputs.locator(".jp-RenderedImage img")).to_be_visible()


def assert_live(notebook: NotebookPage, value: int) -> None:
    """The slider goes on from this value, the other one calls its function, and the bar is full."""
    outputs, sliders = cell(notebook), cell(notebook).get_by_role("slider")
    expect(outputs.locator(".widget-readout").first).to_have_text(str(value))
    sliders.first.press("ArrowRight")
    notebook.run_until(2, str(value + 1))
    sliders.last.press("ArrowRight")
    expect(outputs.locator(".widget-output")).to_have_text(f"x is {value + 1}")
    expect(outputs.locator(".widget-hbox", has_text="80/80")).to_contain_text("100%")


def assert_told(outputs: Locator) -> None:
    """Without their kernel the widgets are what they said last."""
    expect(outputs.locator(".jp-RenderedText", has_text="IntSlider(value=3)").first).to_be_visible()
    expect(outputs.locator(".jp-RenderedText", has_text="80/80")).to_contain_text("100%|")
    expect(outputs.get_by_text("This widget is not in the kernel any more")).to_have_count(3)
    expect(outputs).not_to_contain_text("model not found")


def assert_rows_a_press_away(outputs: Locator) -> None:
    rows, press = outputs.locator("tr", has_text="4999"), outputs.get_by_text("Show all 5,000 rows")
    expect(outputs.locator("tr", has_text="29")).to_be_visible()
    expect(rows).to_have_count(0)
    press.click()
    expect(rows).to_be_visible()
    expect(outputs.locator("tr", has_text="4998")).to_have_count(1)
    press.click()
    expect(rows).to_be_hidden()


def assert_exported(path: Path) -> None:
    """What has HTML only shows them too."""
    html, _ = HTMLExporter().from_filename(str(path))
    _, _, below = html.partition("data-agent-record")
    bodies = "data:image/png;base64,", "data:image/svg+xml;base64,", "<td>pear</td>", "\\frac{a}{b}", "Plotly", "100%|"
    for part in bodies:
        assert part in below, part


def test_a_reopened_notebook_draws_what_its_runs_have_shown_and_widgets_live_as_long_as_their_kernel(
    lab: LabServer, open_notebook: OpenNotebook, model: WrittenModel, end: Gate
) -> None:
    notebook = open_notebook(CELLS)
    run_calls(notebook, model, end, *ALL)
    end.open()
    expect(notebook.record()).to_be_visible()
    expect(notebook.record()).to_contain_text("Shown with the answer: Plotly chart")
    assert_rows_a_press_away(cell(notebook))
    assert_drawn(cell(notebook))
    saved = notebook.save()
    outputs = saved.cells[1].outputs
    assert "data-agent-record" in outputs[0]["data"]["text/html"]
    assert outputs == notebook.outputs(1), "the server has nothing to add to what the page has"
    assert calls_of(outputs) == [*range(1, 11)]
    assert [number for number, output in enumerate(outputs) if WIDGET in output["data"]] == [7, 8, 9]
    nbformat.validate(saved)
    assert_live(notebook, 3)
    notebook.save()
    notebook.reload()
    assert_live(notebook, 4)
    notebook.save()
    lab.close_kernels()
    notebook.reload()
    assert notebook.page.evaluate(TRUSTED)
    assert_drawn(cell(notebook))
    assert_told(cell(notebook))
    notebook.page.set_viewport_size({"width": 1200, "height": 2400})
    take_pictures(notebook, cell(notebook), "kept-outputs")
    assert_exported(notebook.path)
