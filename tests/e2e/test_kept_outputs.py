"""What calls show is drawn in cards as a cell's output is, kept with the notebook, and drawn from its file again."""

from typing import Any

import nbformat
from playwright.sync_api import Locator, expect

from agent_kernel.protocol.vocabulary import RESULT_MARK
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import Gate, WrittenModel, run_calls
from tests.e2e.records import WIDGET
from tests.programs import wait_until

CHART = "import plotly.express as px\npx.bar(x=['a', 'b', 'c'], y=[1, 3, 2], title='Weights')"
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
WIDE = "import pandas as pd\npd.DataFrame({f'a long name of a column {n}': [n] * 3 for n in range(60)})"
LATE = (
    "import asyncio\nfrom IPython.display import HTML, display\nlook = asyncio.Event()\n"
    "async def draw():\n    await look.wait()\n    display(HTML('<b>drawn late</b>'))\n"
    "task = asyncio.create_task(draw())"
)
# As altair's charts are by default: a script looks for the element before it.
SCRIPT = (
    "from IPython.display import HTML\nHTML('<p>counts</p><script>window.ran = (window.ran ?? 0) + 1;"
    "document.currentScript.previousElementSibling.textContent += window.ran</script>')"
)
ALL = [CHART, FORMULA, DRAWING, SCRIPT, WIDE, SLIDER, PROGRESS, INTERACT, LATE, TABLE, PICTURE, ROWS]
CELLS = ["%load_ext agent_kernel", "%%agent --policy allow\nShow it.", "slider.value", "look.set()\nprint('mine')"]


def calls_of(outputs: list[dict[str, Any]]) -> list[int]:
    """Which call each output is of, where it is of one."""
    marks = [output.get("metadata", {}).get(RESULT_MARK) for output in outputs]
    return [mark["call"] for mark in marks if mark]


def cell(notebook: NotebookPage) -> Locator:
    return notebook.page.locator(".jp-Notebook .jp-CodeCell").nth(1).locator(".jp-Cell-outputWrapper")


def assert_drawn_in_cards(notebook: NotebookPage) -> None:
    page, plot = notebook.page, notebook.card(0).locator(".js-plotly-plot .main-svg").first
    expect(plot).to_be_visible()
    expect(notebook.card(0).locator(".js-plotly-plot")).to_contain_text("Weights")
    expect(notebook.card(1).locator("mjx-container")).to_be_visible()
    expect(notebook.card(2).locator(".ak-drawn img, .ak-drawn svg")).to_be_visible()
    expect(notebook.card(3)).to_contain_text("counts1")

    # A large table scrolls in its card.
    frame = notebook.card(4).locator(".ak-drawn > .jp-RenderedHTML")
    wait_until(lambda: frame.evaluate("frame => frame.scrollWidth > frame.clientWidth"), "the table to be wider")

    # Folded and unfolded, it is the same drawing: no script runs again.
    for _ in range(2):
        page.locator("button.ak-head").nth(3).click()
    assert page.evaluate("window.ran") == 1

    # What is drawn after a call's end is in its card, and not below the cell that runs then.
    notebook.run(3)
    expect(notebook.card(8)).to_contain_text("drawn late")
    assert (notebook.text(3), len(notebook.outputs(3))) == ("mine", 1)


def assert_live_in_cards(notebook: NotebookPage) -> None:
    expect(notebook.card(6)).to_contain_text("80/80")
    notebook.card(5).get_by_role("slider").press("ArrowRight")
    expect(notebook.card(5).locator(".widget-readout")).to_have_text("4")
    notebook.run_until(2, "4")
    notebook.card(7).get_by_role("slider").press("ArrowRight")
    expect(notebook.card(7).locator(".widget-output")).to_have_text("x is 4")
    notebook.save()
    notebook.reload()
    expect(notebook.card(5).locator(".widget-readout")).to_have_text("4")
    expect(notebook.card(6)).to_contain_text("100%")


def assert_drawn(outputs: Locator) -> None:
    """Chart, table, formula, drawing and picture: by the notebook's own renderers."""
    chart = outputs.locator(".jp-RenderedPlotly")
    chart.hover()  # Plotly's renderer shows a saved chart as a picture until then
    expect(chart.locator(".main-svg").first).to_be_visible()
    expect(chart).to_contain_text("Weights")
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


def test_what_calls_show_is_drawn_in_cards_kept_in_the_file_and_live_as_long_as_the_kernel(
    lab: LabServer, open_notebook: OpenNotebook, model: WrittenModel, end: Gate
) -> None:
    notebook = open_notebook(CELLS)
    run_calls(notebook, model, end, *ALL)
    assert_drawn_in_cards(notebook)
    assert_live_in_cards(notebook)
    end.open()
    expect(notebook.record()).to_be_visible()
    assert_rows_a_press_away(cell(notebook))
    assert_drawn(cell(notebook))
    saved = notebook.save()
    outputs = saved.cells[1].outputs
    assert "data-agent-record" in outputs[0]["data"]["text/html"]
    assert outputs == notebook.outputs(1), "the server has nothing to add to what the page has"
    assert calls_of(outputs) == [*range(1, len(ALL) + 1)]
    assert [number for number, output in enumerate(outputs) if WIDGET in output["data"]] == [6, 7, 8]
    nbformat.validate(saved)
    assert_live(notebook, 4)
    notebook.save()
    notebook.reload()
    assert_live(notebook, 5)
    notebook.save()
    lab.close_kernels()
    notebook.reload()
    assert all(notebook.trusted())
    assert_drawn(cell(notebook))
    assert_told(cell(notebook))
