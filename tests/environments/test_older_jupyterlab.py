"""The scene of a cell that fails and is mended, in the oldest JupyterLab that is taken."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.e2e.lab import LabServer
from tests.e2e.model import WrittenModel
from tests.e2e.test_fixing import open_scene, play
from tests.environments.versions import beside_this_environment, python_with

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

OLDEST = "4.4.0"


def test_a_failing_cell_is_mended_by_one_press_and_one_approval_and_put_back_by_ctrl_z(
    model: WrittenModel, page: Page, tmp_path: Path
) -> None:
    variables = beside_this_environment(model.server.environment())
    with LabServer(tmp_path, variables, python=python_with(OLDEST, "jupyterlab")) as lab:
        notebook = open_scene(lab, page)
        assert page.evaluate("window.jupyterapp.version") == OLDEST
        play(notebook, model)
        lab.close_kernels()
