"""A cell fails, one press, one approval, one undo: in JupyterLab and in Notebook 7."""

import pytest
from playwright.sync_api import Page

from tests.e2e import fix_scene
from tests.e2e.model import WrittenModel


@pytest.mark.parametrize("place", ["lab", "notebook_7"])
def test_a_failing_cell_is_mended_by_one_press_and_one_approval_and_put_back_by_ctrl_z(
    place: str, request: pytest.FixtureRequest, model: WrittenModel, page: Page
) -> None:
    server = request.getfixturevalue(place)
    fix_scene.play(fix_scene.open_scene(server, page), model)
    server.close_kernels()
