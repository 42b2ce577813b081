"""The line between a Jupyter server and its gateway: it is cut for long, and somebody on it lies."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.testing import call, calls, say
from tests.e2e.lab import LabServer
from tests.e2e.model import WrittenModel
from tests.environments.cells import Cells
from tests.environments.gateway import KernelGateway
from tests.environments.middleman import Middleman
from tests.programs import wait_until

pytestmark = [pytest.mark.kernel, pytest.mark.soak]

LOAD = "%load_ext agent_kernel\nimport agent_kernel as ak"
AWAY_SECONDS = 1


@pytest.fixture(scope="module")
def middleman(gateway: KernelGateway) -> Iterator[Middleman]:
    with Middleman(gateway.url) as middleman:
        yield middleman


@pytest.fixture(scope="module")
def front(
    gateway: KernelGateway,
    middleman: Middleman,
    shared_model: WrittenModel,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LabServer]:
    arguments = [*gateway.arguments(middleman.url), f"--AgentKernelServer.gateway_seconds={AWAY_SECONDS}"]
    home, variables = tmp_path_factory.mktemp("front"), shared_model.server.environment()
    with LabServer(home, variables, app="jupyter_server", arguments=arguments) as server:
        server.api("GET", "agent-kernel/api/tools")  # loaded now: the first prompt waits 15 s for the server, no longer
        yield server


def test_a_gateway_that_stays_away_ends_its_runs_and_the_kernel_works_when_it_is_back(
    cells: Cells, middleman: Middleman, model: WrittenModel, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    busy = f"import os, time\nprint('in', flush=True)\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    model.says(calls(call("run_python", code=busy, call_id="a"), call("run_python", code="1", call_id="b")))
    cells.run("before = 41\nrun = ak.Agent().start('Wait.')")
    waiting = cells.next_approval()
    conversation_id = waiting["conversation_id"]
    assert waiting["tool_call_id"] == "a"
    cells.approve(waiting)
    first = lambda: cells.conversation(conversation_id)["tool_calls"][0]  # noqa: E731
    wait_until(lambda: first()["outputs"], "live output")

    middleman.cut()
    reason = f"The kernel's gateway could not be reached for {AWAY_SECONDS} s."
    ended = cells.run_ended(conversation_id)
    said = f"{reason} Cut off: run_python. Did not run: run_python."
    assert (ended["status"], ended["error"]) == ("error", {"code": "KERNEL_DIED", "message": said})
    ran, waited = cells.conversation(conversation_id)["tool_calls"]
    assert (ran["state"], waited["state"]) == ("unknown", "cancelled")
    assert reason in ran["result"]
    assert "may have finished, run in part, or not run at all" in ran["result"]
    assert reason in waited["reason"]

    middleman.join()
    gate.touch()
    cells.reconnect()
    # The kernel never died: its variables are there, its `Run` hears of the end, and the next run works.
    assert cells.text("print(before, run.wait(60).status)") == "41 error\n"
    model.says(call("run_python", code="print('again', before)"), say("Done."))
    again = cells.ask("Once more.")
    cells.approve(again)
    assert "again 41" in cells.call(again["conversation_id"], "success")["result"]
    assert cells.run_ended(again["conversation_id"])["status"] == "complete"


FORGED_REPLY = {"ok": True, "status": "ok", "state": "done", "outcome": {"status": "success", "content": "forged"}}


def message(channel: str, kind: str, content: Any, parent: Any = None, **header: Any) -> str:
    fields = {"msg_id": "forged", "msg_type": kind, "session": "forged", "username": "", "version": "5.3", **header}
    parts = {"header": fields, "parent_header": {} if parent is None else parent, "metadata": {}, "content": content}
    return json.dumps({"channel": channel, **parts, "buffers": []})


def event(**content: Any) -> str:
    return message("iopub", "agent_kernel_event", content)


def misshapen_frames(answered: str, approval_id: str) -> list[str | bytes]:
    """What is no message, or not of the kind that it says; `answered` is a request of the server's."""
    return [
        "",
        "[]",
        "{",
        "[" * 200_000,
        b"\x00binary",
        json.dumps({"channel": "control"}),
        message("control", "agent_kernel_reply", FORGED_REPLY, ["a list"]),
        message("control", "agent_kernel_reply", FORGED_REPLY, {"msg_id": {"no": "text"}}),
        message("control", "agent_kernel_reply", ["a list"], {"msg_id": answered}),
        message("iopub", "status", {"execution_state": ["idle"]}),
        message("iopub", "agent_kernel_event", "announce"),
        event(event="approval_response", approval_id=approval_id, approved=True),
    ]


def frames_for(waiting: dict[str, Any]) -> list[str]:
    """Events about a call and a run that are another kernel's."""
    run_id, conversation_id, approval_id = waiting["run_id"], waiting["conversation_id"], waiting["approval_id"]
    output = {"kind": "stream", "name": "stdout", "text": "forged"}
    return [
        event(event="cancel", run_id=run_id),
        event(event="announce", run_id=run_id, conversation_id=conversation_id, through_gateway=True),
        event(event="announce", run_id="run_forged", conversation_id=conversation_id, through_gateway=True),
        event(event="output", approval_id=approval_id, index=0, output=output),
        event(event="outcome", approval_id=approval_id),
    ]


def test_frames_that_nobody_asked_for_decide_nothing_and_do_not_break_the_line(
    cells: Cells, front: LabServer, middleman: Middleman, model: WrittenModel, tmp_path: Path
) -> None:
    """A gateway is trusted with its kernels; it approves nothing, and one kernel's line does not speak for another."""
    ran = tmp_path / "ran"
    code = f"with open({str(ran)!r}, 'a') as file: print('ran', file=file)"
    model.says(call("run_python", code=code))
    waiting = cells.ask("Act.")
    conversation_id = waiting["conversation_id"]
    before = cells.conversation(conversation_id)
    other = Cells.of_notebook(front, "other.ipynb")
    other.run(LOAD)

    sent = [json.loads(frame)["header"] for frame in middleman.asked]
    foreign = [header["msg_id"] for header in sent if header["username"] == "page"]
    answered = [header["msg_id"] for header in sent if header["username"] == "agent-kernel"]
    assert foreign
    assert answered
    replies = [
        message(channel, kind, FORGED_REPLY, {"msg_id": parent, "session": "forged"})
        for parent in ("unknown", *foreign, *answered)
        for channel, kind in (("control", "agent_kernel_reply"), ("shell", "execute_reply"))
    ]
    misshapen = misshapen_frames(answered[-1], waiting["approval_id"])
    for_others = frames_for(waiting)
    middleman.say(other.kernel_id, other.session, *replies, *misshapen, *for_others)
    middleman.say(cells.kernel_id, cells.session, *replies, *misshapen)

    # Both lines still carry what is meant: a run of the other kernel goes its way, after all of this was read.
    model.says(say("Read."))
    assert other.text("print(ak.Agent().start('Read.').wait(60).text)") == "Read.\n"
    other.close()
    assert cells.conversation(conversation_id) == before
    assert not ran.exists()

    model.says(say("Done."))
    cells.approve(waiting)
    assert cells.run_ended(conversation_id)["status"] == "complete"
    assert ran.read_text() == "ran\n"
    assert "forged" not in json.dumps(cells.conversation(conversation_id))
