"""A changed plot is noticed; another way to draw the same one is not."""

import base64
import io
from collections.abc import Callable

import pytest
from matplotlib.figure import Figure
from PIL import Image, ImageFilter

from agent_kernel.models.recordings.pictures import picture_difference
from agent_kernel.testing.notebook_outputs import comparable_svg, read_outputs

HEIGHTS = (1.0, 4.0, 2.0, 8.0, 5.0, 7.0)


def saved(figure: Figure, kind: str = "png") -> bytes:
    held = io.BytesIO()
    figure.savefig(held, format=kind, bbox_inches="tight", dpi=100)
    return held.getvalue()


def line(heights: tuple[float, ...] = HEIGHTS, kind: str = "png") -> bytes:
    figure = Figure()
    axes = figure.subplots()
    axes.plot(heights, label="height")
    axes.set_title("A line")
    axes.legend()
    return saved(figure, kind)


def bars(*values: float, color: str = "C0") -> bytes:
    figure = Figure(figsize=(5, 3))
    figure.subplots().bar(["Adelie", "Gentoo", "Chinstrap"], values, color=color)
    return saved(figure)


def redrawn(
    picture: bytes, change: Callable[[Image.Image], Image.Image], kind: str = "PNG", **options: object
) -> bytes:
    held = io.BytesIO()
    change(Image.open(io.BytesIO(picture))).save(held, kind, **options)
    return held.getvalue()


def shifted(picture: Image.Image) -> Image.Image:
    wider = Image.new("RGBA", (picture.width + 1, picture.height + 1), "white")
    wider.paste(picture, (1, 1))
    return wider


DRAWINGS: dict[str, Callable[[bytes], bytes]] = {
    "a pixel of size": lambda picture: redrawn(picture, shifted),
    "softer": lambda picture: redrawn(picture, lambda one: one.filter(ImageFilter.GaussianBlur(0.5))),
    "JPEG": lambda picture: redrawn(picture, lambda one: one.convert("RGB"), "JPEG", quality=90),
}
CHANGED = {
    "another maximum": (line(), line((1, 4, 2, 9, 5, 7))),
    "only the ticks": (line(), line(tuple(2 * height for height in HEIGHTS))),
    "a similar colour": (bars(3, 7, 5), bars(3, 7, 5, color="#2f84c4")),
    "size": (line(), redrawn(line(), lambda one: one.resize((one.width * 2, one.height * 2)))),
}


@pytest.mark.parametrize("plot", [line(), bars(3, 7, 5)], ids=["line", "bars"])
@pytest.mark.parametrize("drawing", DRAWINGS.values(), ids=DRAWINGS)
def test_the_same_plot_drawn_otherwise_is_the_same(plot: bytes, drawing: Callable[[bytes], bytes]) -> None:
    assert drawing(plot) != plot
    assert picture_difference(plot, drawing(plot)) == ""


@pytest.mark.parametrize(("before", "after"), CHANGED.values(), ids=CHANGED)
def test_a_changed_plot_is_another(before: bytes, after: bytes) -> None:
    assert picture_difference(before, after)
    assert picture_difference(after, before)


def test_a_difference_says_where_it_is() -> None:
    assert picture_difference(bars(3, 7, 5), bars(3, 7, 6)).startswith("It shows something else between x ")


def test_an_svg_is_compared_without_the_ids_and_the_date_that_matplotlib_makes_up() -> None:
    first, again, other = (line(values, "svg").decode() for values in (HEIGHTS, HEIGHTS, (1, 2, 9)))
    assert first != again
    assert comparable_svg(first) == comparable_svg(again) != comparable_svg(other)


def output(**data: object) -> dict[str, object]:
    bundle = {name.replace("_", "/"): value for name, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": bundle}


def test_pictures_of_outputs_and_in_html_are_taken_out_in_order_and_the_outputs_stay() -> None:
    first, second = (base64.encodebytes(picture).decode() for picture in (line(), bars(1, 2, 3)))
    outputs = [
        output(image_png=first, text_plain="<Figure>"),
        output(text_html=f'<img src="data:image/png;base64,{second}">'),
    ]
    read = read_outputs(outputs)
    assert read.pictures == [line(), bars(1, 2, 3)]
    assert [one["data"] for one in read.rest] == [{"text/plain": "<Figure>"}, {"text/html": '<img src="(a picture)">'}]
    assert outputs[0]["data"] == {"image/png": first, "text/plain": "<Figure>"}
