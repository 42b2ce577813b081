"""The main job in Firefox, which Playwright drives only as a build of its own: Puppeteer drives anybody's."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_kernel.testing import call, say
from tests import packages
from tests.e2e.lab import LabServer
from tests.e2e.model import WrittenModel
from tests.environments.versions import PLACE

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(900)]

PUPPETEER = "puppeteer-core@^24"
JOURNEY = Path(__file__).with_name("firefox.mjs")


def find_firefox() -> str | None:
    return next((path for path in map(shutil.which, ("firefox", "firefox-esr")) if path), None)


@pytest.fixture
def firefox() -> str:
    if find_firefox() is None and packages.may_install():
        packages.install("firefox-esr")
    return find_firefox() or pytest.skip("There is no Firefox here.")


@pytest.fixture
def puppeteer() -> Path:
    """Its main module; npm installs it the first time."""
    folder = PLACE / "puppeteer"
    main = folder / "node_modules" / "puppeteer-core" / "lib" / "esm" / "puppeteer" / "puppeteer-core.js"
    if not main.exists():
        folder.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), PUPPETEER]
        subprocess.run(install, check=True, env={**os.environ, "npm_config_cache": str(folder / "npm")})
    return main


def test_a_call_is_approved_by_its_key_and_the_record_is_there_after_a_reload(
    firefox: str, puppeteer: Path, model: WrittenModel, tmp_path: Path
) -> None:
    model.says(call("run_python", code="6 * 7"), say("It is **42**."))
    with LabServer(tmp_path / "lab", model.server.environment()) as lab:
        url = lab.page_url(lab.write_notebook("fox.ipynb", ["'before'", "%%agent\nWhat is six times seven?"]))
        # Firefox refuses a home that is another user's.
        variables = {**os.environ, "HOME": str(tmp_path)}
        command = ["node", str(JOURNEY), str(puppeteer), firefox, url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=variables, check=False)
        assert done.returncode == 0, done.stderr
        assert "It is 42." in done.stdout
        lab.close_kernels()
