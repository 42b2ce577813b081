"""What the model is told of what a call displays: the text, and what only some pages can draw."""

from typing import Any

import pytest

from agent_kernel.execution.output_reader import OutputReader
from agent_kernel.protocol.views import OutputView

LARGE = "A" * 20_000_000
UNSEEN = "You are given no picture of it.]"
CHART = "[application/vnd.plotly.v1+json: the notebook draws it for the user where it can."
PAGE = f"[text/html: the notebook draws it for the user where it can. {UNSEEN}"
WIDGET = "[A widget, which the user can use where the notebook shows widgets. This text is how it was at the end.]"


@pytest.mark.parametrize(
    ("bundle", "told"),
    [
        # A picture itself goes to the model, or a line that says why not.
        ({"image/png": "QUJD"}, "[image/png]"),
        ({"image/svg+xml": "<svg/>"}, "[image/svg+xml shown to the user]"),
        ({"image/png": LARGE, "text/plain": "all"}, "all\n[image/png, too large to show]"),
        ({"application/vnd.plotly.v1+json": {"data": []}}, f"{CHART} {UNSEEN}"),
        ({"application/vnd.plotly.v1+json": {"data": []}, "image/png": "QUJD"}, f"{CHART}]"),
        (
            {"text/plain": "Figure", "application/vnd.plotly.v1+json": {"data": LARGE}},
            "Figure\n[application/vnd.plotly.v1+json, too large to show]",
        ),
        ({"text/plain": "alt.Chart(...)", "text/html": "<script>draw()</script>"}, f"alt.Chart(...)\n{PAGE}"),
        ({"text/html": "<p>" * 9_000}, PAGE),
        ({"text/plain": "a  1", "text/html": "<table></table>"}, "a  1"),
        (
            {"text/plain": "IntSlider(value=3)", "application/vnd.jupyter.widget-view+json": {"model_id": "m"}},
            f"IntSlider(value=3)\n{WIDGET}",
        ),
        ({"application/x-odd": {}}, f"[application/x-odd: the notebook draws it for the user where it can. {UNSEEN}"),
    ],
)
async def test_the_model_is_not_told_that_the_user_saw_what_only_some_pages_can_draw(
    bundle: dict[str, Any], told: str
) -> None:
    outputs: list[Any] = []
    reader = OutputReader(outputs.append)
    reader.read("display_data", {"data": bundle, "metadata": {}, "transient": {}})
    assert await reader.end("") == (told, None)
    [shown] = outputs
    assert isinstance(shown, OutputView)
    assert set(shown.data) == ({"text/plain"} if "too large" in told else set(bundle))
