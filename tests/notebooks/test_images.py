"""What a real kernel shows and what a prompt names, as it gets to a model that takes images."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from agent_kernel.testing import FakeOpenAI, say
from tests.core.tools.builtin.pictures import png_bytes, size_of
from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

IMPORTS = """
import agent_kernel as ak
from agent_kernel.notebook.run import state_of
from agent_kernel.models.base import ModelFacts
from agent_kernel.testing import ScriptedModel, call, calls, say
def seeing(*turns): return ScriptedModel(turns, facts=ModelFacts(images=True))
def sizes(request):
    return [(ref["width"], ref["height"], ref["digest"] in request.images)
            for message in request.messages for ref in message.get("images", ())]
"""
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.title('Peak');"
SIZE = "556, 434"
"""Of the inline backend's figure, whose margins are cut."""
ROOT = str(Path(__file__).parents[2])
DRAWINGS = """display(SVG('<svg/>'), HTML('<img src="data:image/png;base64,QUJD">'))"""


@pytest.fixture(scope="module")
def seeing_kernel(shared_kernel: TestKernel) -> TestKernel:
    shared_kernel.run(IMPORTS)
    return shared_kernel


def run(kernel: TestKernel, code: str, then: str = "") -> Any:
    """What the model got after a call of this code."""
    kernel.run(f"model = seeing(call('run_python', code={code!r}), say('I see.'))\n")
    assert kernel.run("run = ak.Agent(model=model, policy='allow').run('Draw.')").ok
    return kernel.value(then or "sizes(model.requests[-1]), run.tool_calls[0].seen_images")


def test_a_matplotlib_plot_goes_to_the_model_and_the_record_says_so(seeing_kernel: TestKernel) -> None:
    assert run(seeing_kernel, PLOT) == f"([({SIZE}, True)], 1)"
    seeing_kernel.run("model = seeing(call('run_python', code='plt.plot([1]); plt.show()'), say('I see.'))")
    cell = seeing_kernel.run("_ = ak.Agent(model=model, policy='allow').run('Draw.')")
    for kind in ("text/plain", "text/html"):
        assert any("The model has seen this plot." in (shown or "") for shown in cell.shown(kind)), kind


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("from IPython.display import Image, display\ndisplay(Image(data=SQUARE))", "[(10, 10, True)]"),
        (f"{PLOT}\nraise ValueError('after the plot')", f"[({SIZE}, True)]"),
        (f"from IPython.display import SVG, HTML\n{DRAWINGS}", "[]"),
    ],
    ids=["Image", "raises", "drawings"],
)
def test_what_else_shows_pictures(seeing_kernel: TestKernel, code: str, seen: str) -> None:
    seeing_kernel.run(f"SQUARE = {png_bytes(10, 10)!r}")
    assert run(seeing_kernel, code, then="run.status, sizes(model.requests[-1])") == f"('complete', {seen})"


def test_the_environment_can_keep_pictures_from_models(start_kernel: Callable[..., TestKernel]) -> None:
    kernel = start_kernel(AGENT_KERNEL_SEND_IMAGES="no")
    kernel.run(IMPORTS)
    assert run(kernel, PLOT) == "([], 0)"


def test_a_prompts_picture_is_read_in_the_notebooks_folder(
    start_kernel: Callable[..., TestKernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "figure.png").write_bytes(png_bytes(40, 30))
    monkeypatch.chdir(folder)
    kernel = start_kernel(PYTHONPATH=ROOT)
    kernel.run(f"%load_ext agent_kernel\n{IMPORTS}")
    prompt = "What is ![](figure.png), and ![](../secret.png)?"
    kernel.run(f"model = seeing(say('A square.')); run = ak.Agent(model=model).run({prompt!r})")
    assert kernel.value("sizes(model.requests[0])") == "[(40, 30, True)]"
    said = kernel.value("[notice.content for notice in state_of(run).view.notices]")
    assert "The picture '../secret.png' is not sent to the model: only files in the notebook's folder are read." in said


def test_a_prompts_attachment_is_that_of_the_nearest_markdown_cell_above_it_in_the_saved_notebook(
    start_kernel: Callable[..., TestKernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attached(width: int) -> Any:
        picture = {"image/png": base64.b64encode(png_bytes(width, 30)).decode()}
        return nbformat.v4.new_markdown_cell("![](attachment:image.png)", attachments={"image.png": picture})

    cells = [attached(20), attached(40), nbformat.v4.new_code_cell(id="asks"), attached(60)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "plots.ipynb")
    monkeypatch.chdir(tmp_path)
    prompt = "%%agent --model gpt-5 --wait\nWhat is ![](attachment:image.png)?"
    with FakeOpenAI() as model:
        model.add(say("A square."), say("I see none."))
        kernel = start_kernel(PYTHONPATH=ROOT, JPY_SESSION_NAME=f"{tmp_path}/plots.ipynb", **model.environment())
        kernel.run("%load_ext agent_kernel")
        kernel.result(kernel.send_cell("asks", prompt))
        unsaved = kernel.result(kernel.send_cell("new", prompt))
        *_, shown = model.requests[0].body["messages"][-1]["content"]
        assert size_of(shown["image_url"]["url"].partition(",")[2]) == (40, 30)
        assert "image_url" not in str(model.requests[1].body["messages"][-1])
    assert "3 Markdown cells have an attachment of this name" in str(unsaved.shown("text/html"))
