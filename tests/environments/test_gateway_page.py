"""An open JupyterLab whose server is killed and started again, while the kernel lives on at a gateway."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page, expect

from agent_kernel.testing import call, say
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.e2e.records import assert_record_is_saved
from tests.environments.gateway import KernelGateway

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.soak]

CHOOSE_KERNEL = "async id => { await window.jupyterapp.shell.currentWidget.sessionContext.changeKernel({ id }); }"
"""What the dialog "Select Kernel" does with a kernel that is running."""
NO_KERNEL = "!window.jupyterapp.shell.currentWidget.sessionContext.session"
BACK_SECONDS = 60
HEARD_SECONDS = 20


@pytest.fixture
def front(gateway: KernelGateway, shared_model: WrittenModel, tmp_path: Path) -> Iterator[LabServer]:
    with LabServer(tmp_path, shared_model.server.environment(), arguments=gateway.arguments()) as server:
        yield server


class GatewayPage(NotebookPage):
    """JupyterLab offers a protocol that a server with a gateway does not speak, and opens the kernel's line a second
    time without it. Jupyter Server cannot take back the first while it opens: where that comes last, the gateway sends
    the kernel's answers to it, which nobody reads. Whoever meets that reconnects, which opens one line only."""

    def wait_until_heard(self, seconds: float = HEARD_SECONDS) -> None:
        try:
            super().wait_until_heard(seconds)
        except Error as nobody_heard:
            if "no kernel was heard" not in str(nobody_heard):
                raise
            self.command("kernelmenu:reconnect-to-kernel")
            super().wait_until_heard()


def test_the_open_page_gets_its_card_back_and_the_kernel_can_be_chosen_again(
    front: LabServer, model: WrittenModel, page: Page
) -> None:
    model.says(call("run_python", code="before += 1\nprint('before is', before)"), say("It goes on."))
    cells = ["%load_ext agent_kernel\nbefore = 41", "%%agent\nCount.", "print('the page speaks to', before)"]
    notebook = GatewayPage(front, page, front.write_notebook("outlived.ipynb", cells))
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval", seconds=60)
    notebook.save()

    # JupyterLab says in a dialog that it lost its server, and lays it over the page.
    lost = page.get_by_role("dialog", name="Server Connection Error")
    page.add_locator_handler(lost, lambda dialog: dialog.get_by_role("button").last.click())
    front.kill()
    expect(page.get_by_text("Reconnecting").first).to_be_visible()
    front.start_again()
    expect(page.get_by_text("Reconnecting")).to_have_count(0, timeout=BACK_SECONDS * 1000)
    notebook.press("Approve")
    expect(page.get_by_text("It goes on.").first).to_be_visible(timeout=BACK_SECONDS * 1000)
    notebook.wait_for_end()
    assert model.tool_results() == ["before is 42"]

    # A Jupyter server keeps its sessions in memory: JupyterLab says "No Kernel" until the kernel is chosen again.
    [kernel] = front.api("GET", "api/kernels")
    page.wait_for_function(NO_KERNEL, timeout=BACK_SECONDS * 1000)
    page.evaluate(CHOOSE_KERNEL, kernel["id"])
    notebook.wait_until_heard()
    notebook.run(2)
    assert notebook.text(2) == "the page speaks to 42"
    assert_record_is_saved(notebook.save(), 1, "It goes on.")
