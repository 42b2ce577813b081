"""The lists of calls and of runs name the notebook, the kernel, the cell and the prompt of each."""

import json
from typing import Any

import nbformat
import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.server.client import Api, Kernel, OpenChannel, open_notebook
from tests.server.serving import Server
from tests.waiting import look_until

pytestmark = pytest.mark.kernel

PROMPT = "Which penguins are heavy?"
CELL = "cell-of-the-agent"


def place(one: Any) -> tuple[Any, ...]:
    return one["notebook"], one["kernel_id"], one["cell_id"], one["prompt"]


async def test_a_call_that_waits_and_its_run_name_notebook_kernel_cell_and_prompt(
    api: Api, loaded: Kernel, model: FakeOpenAI, server: Server, client: OpenChannel
) -> None:
    for name, cell_id in (("first.ipynb", "another-cell"), ("second.ipynb", CELL)):
        cell = nbformat.v4.new_code_cell(f"%%agent\n{PROMPT}", id=cell_id)
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), server.root / name)
    await open_notebook(server.fetch, "second.ipynb", loaded.kernel_id)
    model.add(call("run_python", code="1"), say("None."))
    await loaded.run(f"%%agent\n{PROMPT}", cell_id=CELL)
    waiting = await api.next_approval()
    [run] = await api.get("runs")
    expected = ("second.ipynb", loaded.kernel_id, CELL, PROMPT)
    assert (place(waiting), place(run)) == (expected, expected)
    names = ("tool_call_id", "approval_id", "tool_name")
    wait = {"kind": "approval", "run_id": None} | {name: waiting[name] for name in names}
    assert (run["status"], run["waits_for"]) == ("running", [wait])
    assert len(await api.get("approvals", state="awaiting_approval", notebook="second.ipynb")) == 1
    assert await api.get("approvals", notebook="first.ipynb") == []

    page = await client(waiting["conversation_id"])
    await page.send({"type": "shown", "id": "s", "run_id": run["run_id"], "shown": True})
    await page.until("ack")
    assert [run["shown"], (await api.get("runs"))[0]["shown"]] == [False, True]

    body = json.dumps({"path": "renamed.ipynb"})
    await server.fetch("api", "contents", "second.ipynb", method="PATCH", body=body)
    await api.listed("runs", notebook="/renamed.ipynb")  # Jupyter tells of it a moment later
    assert [one["notebook"] for one in await api.get("approvals")] == ["renamed.ipynb"]

    await api.decide(waiting)
    await api.ended(waiting["conversation_id"])
    [ended] = await api.get("runs", state="complete")
    assert (*place(ended), ended["waits_for"]) == ("renamed.ipynb", *expected[1:], [])
    assert [one["run_id"] for one in await api.get("runs", run_id=ended["run_id"], limit="0")] == [ended["run_id"]]


async def test_a_queued_run_names_the_one_that_it_waits_for_and_runs_are_listed_by_state(
    api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("ask_user", question="Which one?"), say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    body = {"content": "First.", "watched": True}
    first = (await api("POST", "conversations", conversation_id, "runs", body=body))[1]["run_id"]
    second = await api.start_run(conversation_id, "Second.")

    async def waits() -> Any:
        runs = await api.get("runs", state="open")
        return runs if runs[0]["waits_for"] else None

    runs = await look_until(waits, "the question")
    assert [run["run_id"] for run in runs] == [first, second]
    assert [(wait["kind"], wait["tool_name"]) for wait in runs[0]["waits_for"]] == [("answer", "ask_user")]
    assert [(wait["kind"], wait["run_id"]) for wait in runs[1]["waits_for"]] == [("run", first)]
    assert [run["run_id"] for run in await api.get("runs", state="queued")] == [second]
    await api("POST", "conversations", conversation_id, "runs", first, "cancel")
    await api.ended(conversation_id)
    assert [run["run_id"] for run in await api.get("runs", limit="1")] == [second]
