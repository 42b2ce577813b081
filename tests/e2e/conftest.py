"""One JupyterLab, one browser and one page for all browser tests; a notebook and a model's script for each."""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, WebSocket, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from agent_kernel.testing import say
from tests.e2e.browser import find_browser
from tests.e2e.lab import LabServer, NotebookPage, close_notebooks
from tests.e2e.model import Gate, WrittenModel

RESULTS = Path(__file__).parents[2] / "test-results"
CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # no page of ours needs the network
]
VIEWPORT: ViewportSize = {"width": 1200, "height": 900}
OpenNotebook = Callable[..., NotebookPage]
PATIENCE_MS = 60_000
"""Longest wait for anything that has to come: a busy machine may take long."""
expect.set_options(timeout=PATIENCE_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    given: dict[str, object] = getattr(item, "funcargs", {})
    page = given.get("fresh_page") or given.get("page")
    if report.when == "call" and report.failed and isinstance(page, Page):
        RESULTS.mkdir(exist_ok=True)
        with suppress(PlaywrightError):  # of a page that hangs
            page.screenshot(path=RESULTS / f"{re.sub(r'[^A-Za-z0-9]+', '-', item.name)}.png", full_page=True)
        report.sections.append(("browser console and channel", "\n".join(getattr(page, "console_lines", []))))
        if isinstance(lab := given.get("lab"), LabServer):
            report.sections.append(("server log", lab.log_text()[-6000:]))
    return report


# Package scope, not session: Playwright's event loop must be gone before other folders' asyncio tests begin.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = find_browser()
    assert path is not None, "No browser: run `python -m tests.e2e.browser`, which installs one."
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def shared_model() -> Iterator[WrittenModel]:
    model = WrittenModel()
    model.server.start()
    yield model
    model.server.stop()


@pytest.fixture(scope="package")
def lab(shared_model: WrittenModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    with LabServer(tmp_path_factory.mktemp("lab"), shared_model.server.environment()) as server:
        yield server


@pytest.fixture(scope="package")
def notebook_7(shared_model: WrittenModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    with LabServer(tmp_path_factory.mktemp("seven"), shared_model.server.environment(), app="notebook") as server:
        yield server


@pytest.fixture
def model(shared_model: WrittenModel) -> Iterator[WrittenModel]:
    shared_model.begin()
    yield shared_model
    shared_model.open_gates()
    shared_model.assert_consumed()


@pytest.fixture
def end(model: WrittenModel) -> Iterator[Gate]:
    """The model's last words, which are held back until the page is as the test wants it."""
    gate = Gate(say("There **it** is."))
    yield gate
    gate.open()


def _note_frames(socket: WebSocket, lines: list[str]) -> None:
    """For the report of a failed test: what the channel carried."""
    if "/agent-kernel/" in socket.url:
        lines.append(f"channel: {socket.url}")
        socket.on("framereceived", lambda frame: lines.append(f"  < {frame[:300]!r}"))
        socket.on("framesent", lambda frame: lines.append(f"  > {frame[:300]!r}"))
        socket.on("close", lambda _: lines.append("  closed"))


@contextmanager
def new_page(browser: Browser) -> Iterator[Page]:
    """A page of a person who has opened none yet."""
    context = browser.new_context(viewport=VIEWPORT)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    lines: list[str] = []
    page.console_lines = lines  # type: ignore[attr-defined]
    page.on("console", lambda message: lines.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: lines.append(f"error: {error}"))
    page.on("websocket", lambda socket: _note_frames(socket, lines))
    yield page
    context.close()


@pytest.fixture
def fresh_page(browser: Browser) -> Iterator[Page]:
    with new_page(browser) as page:
        yield page


@pytest.fixture(scope="package")
def shared_page(browser: Browser) -> Iterator[Page]:
    with new_page(browser) as page:
        yield page


@pytest.fixture
def page(shared_page: Page, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page of all tests, as the last one left it but for its notebooks: to load JupyterLab takes seconds."""
    shared_page.console_lines.clear()  # type: ignore[attr-defined]
    failed = request.session.testsfailed
    yield shared_page
    for other in shared_page.context.pages:
        if other is not shared_page:
            other.close()
    shared_page.unroute_all()
    shared_page.set_viewport_size(VIEWPORT)
    shared_page.emulate_media(media="null")
    if request.session.testsfailed > failed:
        shared_page.goto("about:blank")


@pytest.fixture
def open_notebook(lab: LabServer, page: Page, request: pytest.FixtureRequest) -> Iterator[OpenNotebook]:
    """`open_notebook([...cells])` writes a notebook named after the test and opens it, in this page or another."""

    def open_it(cells: Sequence[str], page: Page = page) -> NotebookPage:
        path = lab.write_notebook(f"{request.node.name}.ipynb", cells)
        return NotebookPage(lab, page, path)

    yield open_it
    close_notebooks(page)
    lab.close_kernels()
