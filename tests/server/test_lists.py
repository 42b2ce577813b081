"""The lists of calls and of runs name the notebook, the kernel, the cell and the prompt of each."""

import json
from functools import partial
from typing import Any

import nbformat
import pytest
import pytest_asyncio

from agent_kernel.testing import FakeOpenAI, call, say
from tests.server.client import Api, Kernel, OpenChannel, open_notebook
from tests.server.serving import Server
from tests.waiting import look_until

PROMPT = "Which penguins are heavy?"
CELL = "cell-of-the-agent"


@pytest.fixture
def notebooks(server: Server) -> list[str]:
    """Two notebooks; the second has the agent's cell."""
    for name, cell_id in (("first.ipynb", "another-cell"), ("second.ipynb", CELL)):
        cell = nbformat.v4.new_code_cell(f"%%agent\n{PROMPT}", id=cell_id)
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), server.root / name)
    return ["first.ipynb", "second.ipynb"]


@pytest_asyncio.fixture(loop_scope="module")
async def in_second(kernel: Kernel, server: Server, notebooks: list[str]) -> Kernel:
    """The kernel of the second notebook, with the extension loaded."""
    await open_notebook(server.fetch, notebooks[1], kernel.kernel_id)
    await kernel.run("%load_ext agent_kernel")
    return kernel


async def listed(api: Api, what: str, **params: str) -> list[Any]:
    status, found = await api("GET", what, params=params)
    assert status == 200, found
    return list(found)


def place(one: Any) -> tuple[Any, ...]:
    return one["notebook"], one["kernel_id"], one["cell_id"], one["prompt"]


@pytest.mark.kernel
async def test_a_call_that_waits_and_its_run_name_notebook_kernel_cell_and_prompt(
    api: Api, in_second: Kernel, model: FakeOpenAI, server: Server, client: OpenChannel
) -> None:
    model.add(call("run_python", code="1"), say("None."))
    await in_second.run(f"%%agent\n{PROMPT}", cell_id=CELL)
    waiting = await api.next_approval()
    expected = ("second.ipynb", in_second.kernel_id, CELL, PROMPT)
    assert place(waiting) == expected
    [run] = await listed(api, "runs")
    assert place(run) == expected
    wait = {"kind": "approval", "run_id": None} | {
        name: waiting[name] for name in ("tool_call_id", "approval_id", "tool_name")
    }
    assert (run["status"], run["waits_for"]) == ("running", [wait])
    assert len(await listed(api, "approvals", state="awaiting_approval", notebook="second.ipynb")) == 1
    assert await listed(api, "approvals", notebook="first.ipynb") == []

    page = await client(waiting["conversation_id"])
    for shown in (True, False):
        assert (await listed(api, "runs"))[0]["shown"] is not shown
        await page.send({"type": "shown", "id": str(shown), "run_id": run["run_id"], "shown": shown})
        await page.until("ack")
    assert (await listed(api, "runs"))[0]["shown"] is False

    body = json.dumps({"path": "renamed.ipynb"})
    await server.fetch("api", "contents", "second.ipynb", method="PATCH", body=body)

    await look_until(lambda: listed(api, "runs", notebook="/renamed.ipynb"), "Jupyter to tell of the rename")
    assert [one["notebook"] for one in await listed(api, "approvals")] == ["renamed.ipynb"]

    await api.decide(waiting)
    await api.ended(waiting["conversation_id"])
    [ended] = await listed(api, "runs", status="complete")
    assert (*place(ended), ended["waits_for"]) == ("renamed.ipynb", *expected[1:], [])
    await server.fetch("api", "kernels", in_second.kernel_id, method="DELETE")
    assert [one["notebook"] for one in await listed(api, "runs")] == ["renamed.ipynb"]

    of = partial(listed, api, "runs", run_id=ended["run_id"], limit="0")
    assert [one["run_id"] for one in await of(notebook="renamed.ipynb")] == [ended["run_id"]]
    assert await of(notebook="first.ipynb") == await listed(api, "runs", run_id="run_0") == []


@pytest.mark.kernel
async def test_of_two_notebooks_on_a_kernel_the_one_that_asked_is_named(
    api: Api, kernel: Kernel, model: FakeOpenAI, server: Server, notebooks: list[str]
) -> None:
    for path in notebooks:
        await open_notebook(server.fetch, path, kernel.kernel_id)
    model.add(call("run_python", code="1"), call("run_python", code="2"))
    await kernel.run("%load_ext agent_kernel")
    await kernel.run(f"%%agent --new\n{PROMPT}", cell_id=CELL)
    await api.next_approval()
    await kernel.run(f"%%agent --new\n{PROMPT}", cell_id="another-cell")
    assert [one["notebook"] for one in await api.all_waiting(2)] == ["second.ipynb", "first.ipynb"]
    assert (await kernel.text("%agent status")).splitlines()[:2] == [
        f"  Waiting for you (Run Python) in {path}: {PROMPT}" for path in ("second.ipynb", "first.ipynb")
    ]


@pytest.mark.kernel
async def test_a_queued_run_names_the_one_that_it_waits_for_and_runs_are_listed_by_state_and_status(
    api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("ask_user", question="Which one?"), say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    body = {"content": "First.", "watched": True}
    first = (await api("POST", "conversations", conversation_id, "runs", body=body))[1]["run_id"]
    second = await api.start_run(conversation_id, "Second.")

    async def waits() -> Any:
        runs = await listed(api, "runs", state="open")
        return runs if runs[0]["waits_for"] else None

    runs = await look_until(waits, "the question")
    assert [run["run_id"] for run in runs] == [first, second]
    assert [(wait["kind"], wait["tool_name"]) for wait in runs[0]["waits_for"]] == [("answer", "ask_user")]
    assert [(wait["kind"], wait["run_id"]) for wait in runs[1]["waits_for"]] == [("run", first)]
    assert [run["run_id"] for run in await listed(api, "runs", state="queued")] == [second]
    assert [run["run_id"] for run in await listed(api, "runs", status="running")] == [first]
    await api("POST", "conversations", conversation_id, "runs", first, "cancel")
    await api.ended(conversation_id)
    assert {run["run_id"] for run in await listed(api, "runs")} == {first, second}
    assert [run["run_id"] for run in await listed(api, "runs", limit="1")] == [second]
    assert await listed(api, "runs", limit="0") == []
