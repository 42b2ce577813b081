"""Runs that a cell announces: the server hears them with no page open, and their record is in the saved notebook."""

import asyncio
import json
import textwrap
from pathlib import Path
from typing import Any

import nbformat
import pytest

from agent_kernel.errors import AgentKernelError
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.testing.wire.reply import failure
from agent_kernel_server.kernels.served_kernel import UNDECLARED_RUNS, ServedKernel
from agent_kernel_server.notebooks.notebook_paths import NotebookPaths
from agent_kernel_server.notebooks.records import WIDGET_MIME
from tests.server.cells import ASK
from tests.server.client import Api, Kernel
from tests.server.serving import Server
from tests.waiting import look_until, until

pytestmark = pytest.mark.kernel


def save_output(path: Path, output: Any) -> None:
    """What a page does when it saves: the cell's output, as it is now, into the file."""
    saved = nbformat.read(path, as_version=4)
    content = output["content"]
    shown = nbformat.v4.new_output("display_data", data=content["data"], metadata=content["metadata"])
    saved.cells[0].outputs = [shown]
    nbformat.write(saved, path)


def saved_data(path: Path) -> dict[str, Any]:
    """The first output in the file; nothing while Jupyter writes it, which it does in place."""
    try:
        return dict(nbformat.read(path, as_version=4).cells[0].outputs[0]["data"])
    except nbformat.reader.NotJSONError:
        return {}


async def until_record_says(path: Path, words: str) -> dict[str, Any]:
    await until(lambda: WIDGET_MIME not in (data := saved_data(path)) and words in data.get("text/plain", ""))
    return saved_data(path)


def delete(path: Path) -> None:
    path.unlink()


async def shown(kernel: Kernel) -> Any:
    """Run the agent's cell; the display it makes."""
    outputs = await kernel.run(ASK)
    displays = [one for one in outputs if one["msg_type"] == "display_data"]
    assert displays, [(one["msg_type"], one["content"]) for one in outputs]
    return displays[0]


async def test_the_record_reaches_the_saved_notebook_with_no_page_open(
    api: Api, open_kernel: Kernel, analysis: Path, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="answer = 42"), say("The answer is in `answer`."))
    output = await shown(open_kernel)
    assert WIDGET_MIME in output["content"]["data"]
    save_output(analysis, output)
    waiting = await api.next_approval()
    assert WIDGET_MIME in saved_data(analysis)
    await api.decide(waiting)
    await api.ended(waiting["conversation_id"])
    data = await until_record_says(analysis, "The answer is in")
    assert f'data-agent-record="{waiting["run_id"]}"' in "".join(data["text/html"])
    assert "The answer is in" in "".join(data["text/markdown"])
    printed = await open_kernel.text("import agent_kernel; print(answer, agent_kernel.last_run().wait().status)")
    assert printed == "42 complete\n"


async def test_no_file_is_made_where_the_notebook_was_deleted(
    api: Api, open_kernel: Kernel, analysis: Path, model: FakeOpenAI, server: Server
) -> None:
    model.add(say("Done."))
    delete(analysis)
    await shown(open_kernel)
    [run] = await api.listed("runs")
    await api.ended(run["conversation_id"])
    await until(lambda: server.service.records._records and not server.service.kernels.active_runs())
    assert list(analysis.parent.glob("*.ipynb")) == []


async def test_a_cell_that_waits_for_its_run_runs_the_calls_itself(
    api: Api, open_kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="print('inside')"), say("Done."))
    code = "import agent_kernel as ak\nrun = ak.Agent().start('Go.').wait()\nprint(run.text)"
    cell = asyncio.create_task(open_kernel.text(code))
    waiting = await api.decide()
    assert "Done." in await cell
    view = await api.ended(waiting["conversation_id"])
    assert view["tool_calls"][0]["result"].count("inside") == 1


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the runs that the server has asked for."""
    ids: list[str] = []
    declaration_of = ServedKernel._declaration_of

    async def declaration_is_noted(self: ServedKernel, *args: Any) -> Any:
        declaration = await declaration_of(self, *args)
        ids.append(declaration.run_id)
        return declaration

    monkeypatch.setattr(ServedKernel, "_declaration_of", declaration_is_noted)
    return ids


async def test_runs_go_in_the_order_of_their_cells_though_the_notebook_of_the_first_is_found_late(
    api: Api, open_kernel: Kernel, model: FakeOpenAI, declared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = NotebookPaths.notebook_of
    asked: list[None] = []

    async def find_late(self: NotebookPaths, *args: Any) -> Any:
        asked.append(None)
        if len(asked) == 1:
            await until(lambda: len(declared) == 2)
            await asyncio.sleep(0.2)  # long enough for the second one to start, where nothing keeps it from that
        return await find(self, *args)

    monkeypatch.setattr(NotebookPaths, "notebook_of", find_late)
    model.add(say("One."), say("Two."))
    await open_kernel.run(
        "import agent_kernel as ak\nagent = ak.Agent()\nruns = [agent.start('First.'), agent.start('Second.')]"
    )
    runs = await api.listed("runs", 2)
    view = await api.ended(runs[0]["conversation_id"])
    assert [run["run_id"] for run in view["runs"]] == declared
    assert [message["content"] for message in view["messages"] if message["role"] == "user"] == ["First.", "Second."]


async def test_every_run_is_asked_for_however_many_wait_for_their_turn_to_start(
    open_kernel: Kernel, declared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell gives up a run that nobody asks for in time."""
    released = asyncio.Event()

    async def starts_late(*_: Any) -> Any:
        await released.wait()
        raise AgentKernelError("Not today.")

    monkeypatch.setattr(ServedKernel, "_start_declared", starts_late)
    count = UNDECLARED_RUNS + 1
    started = f"agent = ak.Agent()\nstarted = [agent.start('Go.') for _ in range({count})]"
    await open_kernel.run(f"import agent_kernel as ak\n{started}")
    await until(lambda: len(declared) == count)
    released.set()
    ended = "[run.wait(30).error.message for run in started].count('Not today.')"
    assert await open_kernel.text(f"print({ended})") == f"{count}\n"


async def test_a_forged_or_malformed_announcement_is_dropped(api: Api, open_kernel: Kernel, model: FakeOpenAI) -> None:
    forge = """
    def send(session, content, kernel=get_ipython().kernel):
        session.send(kernel.iopub_socket, "agent_kernel_event", content, ident=b"agent_kernel")
    own = get_ipython().kernel.session
    forged = own.clone()
    forged.key = b"not the key"
    send(forged, {"event": "announce", "run_id": "run_forged", "conversation_id": "conv_forged"})
    send(own, {"event": "announce"})
    send(own, {"event": "teleport"})
    send(own, {"event": "announce", "run_id": "run_nobody_made", "conversation_id": "conv_nobody"})
    """
    with pytest.raises(ValueError, match="Invalid Signature"):  # as any client of the kernel, this one refuses it
        await open_kernel.text(textwrap.dedent(forge))
    model.add(say("Done."))
    await shown(open_kernel)  # what came before it on the same socket has been handled when this run has ended
    [run] = await api.listed("runs")
    await api.ended(run["conversation_id"])
    assert [view["conversation_id"] for view in await api.get("conversations")] == [run["conversation_id"]]


async def test_a_run_that_is_tried_again_with_no_page_open_has_its_last_record_in_the_notebook(
    api: Api, open_kernel: Kernel, analysis: Path, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="1"), failure(400, "The model is not well."), say("Here I am."))
    output = await shown(open_kernel)
    waiting = await api.next_approval()  # so that the page's save comes before the run ends, as people's saves do
    save_output(analysis, output)
    await api.decide(waiting)
    await api.ended(waiting["conversation_id"])
    await until_record_says(analysis, "The model is not well.")
    retry = ("conversations", waiting["conversation_id"], "runs", waiting["run_id"], "retry")
    assert (await api("POST", *retry))[0] == 200
    assert "not well" not in json.dumps(await until_record_says(analysis, "Here I am."))

    async def heard() -> bool:
        said = await open_kernel.text("import agent_kernel as ak; run = ak.last_run(); print(run.status, run.done)")
        return said == "complete True\n"

    await look_until(heard, "the kernel to hear of the end")
