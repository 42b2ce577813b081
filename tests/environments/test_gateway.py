"""Kernels that are not on the server's machine: they are a gateway's, and the server reaches them through it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.testing import call, say
from tests.e2e.lab import LabServer
from tests.e2e.model import Gate, WrittenModel
from tests.e2e.records import WIDGET
from tests.environments.cells import Cells
from tests.environments.gateway import KernelGateway
from tests.programs import wait_until

pytestmark = [pytest.mark.kernel, pytest.mark.soak]

LOAD = "%load_ext agent_kernel\nimport agent_kernel as ak"


@pytest.fixture(scope="module")
def front(
    gateway: KernelGateway, shared_model: WrittenModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabServer]:
    """The Jupyter server that people use. It has the extension and the model; the kernels are the gateway's."""
    home, variables = tmp_path_factory.mktemp("front"), shared_model.server.environment()
    with LabServer(home, variables, app="jupyter_server", arguments=gateway.arguments()) as server:
        yield server


def test_the_main_job_runs_in_a_kernel_behind_a_gateway(cells: Cells, model: WrittenModel) -> None:
    answer = Gate(say("It is **42**."))
    code = "import os\nproduct = 6 * 7\nprint('the product is', product)\n'last value'"
    model.says(call("run_python", code=code), answer)
    cell = cells.start("%%agent\nWhat is six times seven?")
    cells.ended(cell)
    (live,) = cells.shown(cell)
    assert WIDGET in live["data"], "the cards are the server's, not the kernel's own"
    waiting = cells.next_approval()
    assert cells.text("print('product' in globals())") == "False\n", "the call ran before it was approved"

    cells.approve(waiting)
    done = cells.call(waiting["conversation_id"], "success")
    printed = [output["text"] for output in done["outputs"] if output["kind"] == "stream"]
    assert "".join(printed) == "the product is 42\n"  # a busy kernel may send a line in two pieces
    assert "last value" in done["result"]
    answer.open()
    assert cells.run_ended(waiting["conversation_id"])["status"] == "complete"
    assert cells.text("run = ak.last_run().wait(60); print(run.text, product)") == "It is **42**. 42\n"
    cells.receive_until(
        lambda: any("data-agent-record" in one["data"].get("text/html", "") for one in cells.shown(cell))
    )
    assert sum(WIDGET in one["data"] for one in cells.shown(cell)) == 1, "the record has none"


def test_output_is_seen_while_the_call_runs_and_stop_interrupts_it(cells: Cells, model: WrittenModel) -> None:
    model.says(call("run_python", code="import time\nprint('asleep', flush=True)\ntime.sleep(600)"))
    waiting = cells.ask("Wait ten minutes.")
    cells.approve(waiting)
    conversation_id = waiting["conversation_id"]
    wait_until(lambda: cells.call(conversation_id, "executing")["outputs"], "live output")
    cells.stop(conversation_id)
    assert cells.run_ended(conversation_id)["status"] == "cancelled"
    assert "asleep" in cells.call(conversation_id, "cancelled")["result"]
    assert cells.text("print('still here')") == "still here\n"


def test_a_kernel_that_is_killed_at_the_gateway_takes_its_call_along(cells: Cells, model: WrittenModel) -> None:
    model.says(call("run_python", code="import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"), say("Hm."))
    waiting = cells.ask("Die.")
    cells.approve(waiting)
    done = cells.call(waiting["conversation_id"], "unknown")
    assert "The kernel died" in done["result"]
    cells.run_ended(waiting["conversation_id"])


def test_a_restart_ends_the_runs_of_the_lost_namespace_and_the_next_one_works(
    cells: Cells, model: WrittenModel
) -> None:
    model.says(call("run_python", code="1"), call("run_python", code="print('new life')"), say("Done."))
    first = cells.ask("First.")
    cells.server.api("POST", f"api/kernels/{cells.kernel_id}/restart")
    assert cells.run_ended(first["conversation_id"])["status"] == "cancelled"
    assert "restarted" in cells.call(first["conversation_id"], "cancelled")["reason"]
    cells.reconnect()
    cells.run(LOAD)
    second = cells.ask("Second.")
    cells.approve(second)
    assert cells.run_ended(second["conversation_id"])["status"] == "complete"


def test_an_interrupt_at_the_gateway_stops_the_run(cells: Cells, gateway: KernelGateway, model: WrittenModel) -> None:
    model.says(call("run_python", code="1"))
    waiting = cells.ask("Wait.")
    gateway.api("POST", f"api/kernels/{cells.kernel_id}/interrupt")
    assert cells.run_ended(waiting["conversation_id"])["status"] == "cancelled"
    assert "interrupted" in cells.call(waiting["conversation_id"], "cancelled")["reason"]
    assert cells.text("print('still here')") == "still here\n"


@pytest.fixture
def own_front(gateway: KernelGateway, shared_model: WrittenModel, tmp_path: Path) -> Iterator[LabServer]:
    """A server that a test may kill."""
    with LabServer(
        tmp_path / "own", shared_model.server.environment(), app="jupyter_server", arguments=gateway.arguments()
    ) as server:
        yield server


def test_an_approval_outlives_the_server_and_its_run_goes_on_in_the_same_kernel(
    own_front: LabServer, model: WrittenModel
) -> None:
    model.says(call("run_python", code="before += 1\nprint('before is', before)"), say("It goes on."))
    cells = Cells.of_notebook(own_front, "outlived.ipynb")
    cells.run(LOAD + "\nbefore = 41")
    # The main thread waits for the run all the while: nothing can be installed in this kernel by then.
    cells.start("run = ak.Agent().start('Count.'); print(run.wait().text)")
    first = cells.next_approval()
    own_front.kill()
    own_front.start_again()

    second = cells.next_approval()
    assert (second["approval_id"], second["digest"]) == (first["approval_id"], first["digest"])
    cells.approve(second)
    done = cells.call(first["conversation_id"], "success")
    assert "before is 42" in done["result"]
    assert cells.run_ended(first["conversation_id"])["status"] == "complete"
    cells.reconnect()
    assert cells.text("print(before, run.status, run.text)") == "42 complete It goes on.\n"
    cells.close()


def test_a_call_that_ran_when_the_server_was_killed_is_unknown_and_not_run_again(
    own_front: LabServer, model: WrittenModel
) -> None:
    model.says(call("run_python", code="import time\ncount += 1\nprint('in', flush=True)\ntime.sleep(3)"), say("Hm."))
    cells = Cells.of_notebook(own_front, "running.ipynb")
    cells.run(LOAD + "\ncount = 0")
    first = cells.ask("Count.")
    cells.approve(first)
    wait_until(lambda: cells.call(first["conversation_id"], "executing")["outputs"], "live output")
    own_front.kill()
    own_front.start_again()
    assert "restarted" in cells.call(first["conversation_id"], "unknown")["reason"]
    assert cells.run_ended(first["conversation_id"])["status"] == "complete"
    cells.reconnect()
    assert cells.text("print(count, ak.last_run().wait(60).status)") == "1 complete\n"
    cells.close()


def test_a_kernel_that_was_restarted_while_the_server_was_away_does_not_go_on_with_its_run(
    own_front: LabServer, gateway: KernelGateway, model: WrittenModel
) -> None:
    model.says(call("run_python", code="print(before)"))
    cells = Cells.of_notebook(own_front, "restarted.ipynb")
    cells.run(LOAD + "\nbefore = 41")
    first = cells.ask("Look.")
    own_front.kill()
    gateway.api("POST", f"api/kernels/{cells.kernel_id}/restart")
    own_front.start_again()
    assert cells.run_ended(first["conversation_id"])["error"]["code"] == "KERNEL_DIED"
    assert cells.call(first["conversation_id"], "cancelled")
    cells.close()
