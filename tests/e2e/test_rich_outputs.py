"""What calls show is drawn in the card by the notebook's own renderers, as the output of a cell is."""

from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenNotebook, take_pictures
from tests.e2e.lab import NotebookPage
from tests.e2e.model import Gate, WrittenModel, run_calls
from tests.programs import wait_until

PLOTLY = "import plotly.express as px\npx.bar(x=['a', 'b', 'c'], y=[1, 3, 2], title='Weights')"
SLIDER = "import ipywidgets\nslider = ipywidgets.IntSlider(value=3, description='n')\nslider"
INTERACT = "interaction = ipywidgets.interact(lambda x: print('x is', x), x=3)"
PROGRESS = "from tqdm.auto import tqdm\nfor _ in tqdm(range(50)): pass"
STYLED = (
    "import pandas as pd\npd.DataFrame({'a': [1, 2]}).style.set_properties(**{'background-color': 'rgb(255, 200, 0)'})"
)
FORMULA = "from IPython.display import Math\nMath(r'\\frac{a}{b}')"
VEGA = (
    "from IPython.display import display\n"
    "display({'application/vnd.vegalite.v5+json': {'data': {'values': [{'a': 1, 'b': 2}, {'a': 2, 'b': 3}]},"
    " 'mark': 'bar', 'encoding': {'x': {'field': 'a', 'type': 'ordinal'}, 'y': {'field': 'b', 'type':"
    " 'quantitative'}}}}, raw=True)"
)
DRAWING = (
    "from IPython.display import SVG\n"
    'SVG(\'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><circle r="20" fill="green"/></svg>\')'
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


def shown(notebook: NotebookPage, model: WrittenModel, end: Gate, *codes: str) -> Locator:
    """Have these codes run as calls, and give what the cards show."""
    run_calls(notebook, model, end, *codes)
    return notebook.page.locator(".ak-run")


CELLS = ["%load_ext agent_kernel", "%%agent --policy allow\nShow it."]


def test_what_calls_show_looks_as_it_does_below_a_cell_and_widgets_are_live_over_a_reload(
    open_notebook: OpenNotebook, model: WrittenModel, end: Gate, page: Page
) -> None:
    notebook = open_notebook([*CELLS, "slider.value", "look.set()\nprint('mine')"])
    codes = PLOTLY, STYLED, FORMULA, VEGA, DRAWING, SCRIPT, WIDE, SLIDER, PROGRESS, INTERACT, LATE
    run = shown(notebook, model, end, *codes)
    plot = notebook.card(0).locator(".js-plotly-plot .main-svg").first
    expect(plot).to_be_visible()
    expect(notebook.card(0).locator(".js-plotly-plot")).to_contain_text("Weights")
    expect(notebook.card(1).locator("td").first).to_have_css("background-color", "rgb(255, 200, 0)")
    expect(notebook.card(2).locator("mjx-container")).to_be_visible()
    expect(notebook.card(3).locator("canvas.marks")).to_be_visible()
    expect(notebook.card(4).locator(".ak-drawn img, .ak-drawn svg")).to_be_visible()
    expect(notebook.card(5)).to_contain_text("counts1")
    notebook.page.set_viewport_size({"width": 1200, "height": 2400})
    take_pictures(notebook, run, "rich-outputs")
    notebook.page.set_viewport_size({"width": 1200, "height": 900})

    # A large table scrolls in its card, and a chart keeps to the card's width.
    frame = notebook.card(6).locator(".ak-drawn > .jp-RenderedHTML")
    wait_until(lambda: frame.evaluate("frame => frame.scrollWidth > frame.clientWidth"), "the table to be wider")
    page.set_viewport_size({"width": 800, "height": 900})
    page.wait_for_function(
        "() => { const plot = document.querySelector('.js-plotly-plot .main-svg').getBoundingClientRect();"
        " return plot.right <= document.querySelector('.ak-card').getBoundingClientRect().right; }"
    )

    # Folded and unfolded, it is the same drawing: no script runs again.
    heads = page.locator("button.ak-head")
    for _ in range(2):
        heads.nth(5).click()
        heads.nth(0).click()
    expect(plot).to_be_visible()
    assert page.evaluate("window.ran") == 1

    # What is drawn after a call's end is in its card, and not below the cell that runs then.
    notebook.run(3)
    expect(notebook.card(10)).to_contain_text("drawn late")
    assert (notebook.text(3), len(notebook.outputs(3))) == ("mine", 1)

    expect(notebook.card(8)).to_contain_text("50/50")
    notebook.card(7).get_by_role("slider").press("ArrowRight")
    expect(notebook.card(7).locator(".widget-readout")).to_have_text("4")
    notebook.run_until(2, "4")
    expect(notebook.card(9).locator(".widget-output")).to_have_text("x is 3")
    notebook.card(9).get_by_role("slider").press("ArrowRight")
    expect(notebook.card(9).locator(".widget-output")).to_have_text("x is 4")
    notebook.save()
    notebook.reload()
    expect(notebook.card(7).locator(".widget-readout")).to_have_text("4")
    expect(notebook.card(8)).to_contain_text("100%")
    notebook.card(7).get_by_role("slider").press("ArrowRight")
    notebook.run_until(2, "5")
    end.open()
    expect(notebook.record()).to_be_visible()
    expect(notebook.record().locator("[data-agent-record] script")).to_have_count(0)
