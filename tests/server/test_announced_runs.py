"""Runs that a cell announces: the server hears them with no page open, and their record is in the saved notebook."""

import asyncio
import json
import textwrap
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio

from agent_kernel.errors import AgentKernelError
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.testing.wire.reply import failure
from agent_kernel_server.app import AgentKernelServer
from agent_kernel_server.kernels.kernel import UNDECLARED_RUNS, ServedKernel
from agent_kernel_server.notebooks.notebook_paths import NotebookPaths
from agent_kernel_server.notebooks.records import WIDGET_MIME
from tests.server.client import Api, Fetch, Kernel, open_notebook, service_of
from tests.waiting import look_until, until

pytestmark = pytest.mark.kernel

ASK = "%%agent\nWhat is in the kernel?"


@pytest.fixture
def notebook(jp_root_dir: Path) -> Path:
    path = jp_root_dir / "folder" / "analysis.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(ASK)]), path)
    return path


@pytest_asyncio.fixture(loop_scope="module")
async def open_kernel(kernel: Kernel, jp_fetch: Fetch, notebook: Path) -> Kernel:
    """The kernel of the notebook's session, with the extension loaded. No page is connected."""
    await open_notebook(jp_fetch, "folder/analysis.ipynb", kernel.kernel_id)
    await kernel.run("%load_ext agent_kernel")
    return kernel


def save_output(path: Path, output: Any) -> None:
    """What a page does when it saves: the cell's output, as it is now, into the file."""
    saved = nbformat.read(path, as_version=4)
    content = output["content"]
    saved.cells[0].outputs = [
        nbformat.v4.new_output("display_data", data=content["data"], metadata=content["metadata"])
    ]
    nbformat.write(saved, path)


def saved_data(path: Path) -> dict[str, Any] | None:
    """The first output in the file; `None` while Jupyter writes it, which it does in place."""
    try:
        return dict(nbformat.read(path, as_version=4).cells[0].outputs[0]["data"])
    except nbformat.reader.NotJSONError:
        return None


def placed(path: Path) -> dict[str, Any] | None:
    data = saved_data(path)
    return data if data is not None and WIDGET_MIME not in data else None


def delete(path: Path) -> None:
    path.unlink()


def list_folder(path: Path) -> list[str]:
    return [one.name for one in path.parent.iterdir() if one.suffix == ".ipynb"]


async def shown(kernel: Kernel) -> Any:
    """Run the agent's cell; the display it makes."""
    outputs = await kernel.run(ASK)
    displays = [one for one in outputs if one["msg_type"] == "display_data"]
    assert displays, [(one["msg_type"], one["content"]) for one in outputs]
    return displays[0]


async def the_run(api: Api) -> tuple[str, str]:
    async def look() -> list[Any]:
        return [run for view in (await api("GET", "conversations"))[1] for run in view["runs"]]

    run = (await look_until(look, "a run"))[0]
    return run["conversation_id"], run["run_id"]


async def test_the_record_reaches_the_saved_notebook_with_no_page_open(
    api: Api, open_kernel: Kernel, notebook: Path, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="answer = 42"), say("The answer is in `answer`."))
    output = await shown(open_kernel)
    assert WIDGET_MIME in output["content"]["data"]
    save_output(notebook, output)
    conversation_id, run_id = await the_run(api)
    waiting = await api.next_approval()
    assert WIDGET_MIME in saved_data(notebook)
    await api.decide(waiting)
    await api.ended(conversation_id)
    data = await until(lambda: placed(notebook))
    assert f'data-agent-record="{run_id}"' in "".join(data["text/html"])
    assert "The answer is in" in "".join(data["text/markdown"])
    assert await open_kernel.text("print(answer)") == "42\n"
    printed = await open_kernel.text("import agent_kernel; print(agent_kernel.last_run().wait().status)")
    assert printed == "complete\n"


async def test_no_file_is_made_where_the_notebook_was_deleted(
    api: Api, open_kernel: Kernel, notebook: Path, model: FakeOpenAI, extension: AgentKernelServer
) -> None:
    model.add(say("Done."))
    delete(notebook)
    await shown(open_kernel)
    conversation_id, _ = await the_run(api)
    await api.ended(conversation_id)
    service = service_of(extension)
    await until(lambda: service.records._records and not service.kernels.active_runs())
    assert list_folder(notebook) == []


async def test_a_cell_that_waits_for_its_run_runs_the_calls_itself(
    api: Api, open_kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="print('inside')"), say("Done."))
    code = "import agent_kernel as ak\nrun = ak.Agent().start('Go.').wait()\nprint(run.text)"
    cell = asyncio.create_task(open_kernel.run(code))
    waiting = await api.decide()
    outputs = await cell
    assert "Done." in "".join(one["content"]["text"] for one in outputs if one["msg_type"] == "stream")
    view = await api.ended(waiting["conversation_id"])
    assert view["tool_calls"][0]["result"].count("inside") == 1


async def test_runs_go_in_the_order_of_their_cells_though_the_notebook_of_the_first_is_found_late(
    api: Api, open_kernel: Kernel, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared, both, find, declaration_of = [], asyncio.Event(), NotebookPaths.notebook_of, ServedKernel._declaration_of
    asked: list[None] = []

    async def declaration_is_noted(self: ServedKernel, *args: Any) -> Any:
        declared.append(await declaration_of(self, *args))
        if len(declared) == 2:
            both.set()
        return declared[-1]

    async def find_late(self: NotebookPaths, *args: Any) -> Any:
        asked.append(None)
        if len(asked) == 1:
            await both.wait()
            await asyncio.sleep(0.2)  # long enough for the second one to start, where nothing keeps it from that
        return await find(self, *args)

    monkeypatch.setattr(ServedKernel, "_declaration_of", declaration_is_noted)
    monkeypatch.setattr(NotebookPaths, "notebook_of", find_late)
    model.add(say("One."), say("Two."))
    await open_kernel.run(
        "import agent_kernel as ak\nagent = ak.Agent()\nruns = [agent.start('First.'), agent.start('Second.')]"
    )
    await until(lambda: len(declared) == 2)
    conversation_id = (await the_run(api))[0]

    async def both_ended() -> Any:
        view = await api.ended(conversation_id)
        return view if len(view["runs"]) == 2 else None

    view = await look_until(both_ended, "both runs to end")
    assert [run["run_id"] for run in view["runs"]] == [one.run_id for one in declared]
    assert [message["content"] for message in view["messages"] if message["role"] == "user"] == ["First.", "Second."]


async def test_every_run_is_asked_for_however_many_wait_for_their_turn_to_start(
    open_kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell gives up a run that nobody asks for in time."""
    declared, released, declaration_of = set(), asyncio.Event(), ServedKernel._declaration_of

    async def declaration_is_noted(self: ServedKernel, *args: Any) -> Any:
        declaration = await declaration_of(self, *args)
        declared.add(declaration.run_id)
        return declaration

    async def starts_late(*_: Any) -> Any:
        await released.wait()
        raise AgentKernelError("Not today.")

    monkeypatch.setattr(ServedKernel, "_declaration_of", declaration_is_noted)
    monkeypatch.setattr(ServedKernel, "_start_declared", starts_late)
    count = UNDECLARED_RUNS + 1
    await open_kernel.run(
        f"import agent_kernel as ak\nagent = ak.Agent()\nstarted = [agent.start('Go.') for _ in range({count})]"
    )
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
    conversation_id, _ = await the_run(api)
    await api.ended(conversation_id)
    assert [view["conversation_id"] for view in (await api("GET", "conversations"))[1]] == [conversation_id]


async def test_a_run_that_is_tried_again_with_no_page_open_has_its_last_record_in_the_notebook(
    api: Api, open_kernel: Kernel, notebook: Path, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="1"), failure(400, "The model is not well."), say("Here I am."))
    output = await shown(open_kernel)
    waiting = await api.next_approval()  # so that the page's save comes before the run ends, as people's saves do
    save_output(notebook, output)
    conversation_id, run_id = await the_run(api)
    await api.decide(waiting)
    await api.ended(conversation_id)
    data = await until(lambda: placed(notebook))
    assert "The model is not well." in "".join(data["text/plain"])
    assert (await api("POST", "conversations", conversation_id, "runs", run_id, "retry"))[0] == 200

    def told() -> bool:
        now = placed(notebook)
        return now is not None and "Here I am." in "".join(now["text/plain"])

    await until(told)
    assert "not well" not in json.dumps(saved_data(notebook))

    async def heard() -> bool:
        said = await open_kernel.text("import agent_kernel as ak; run = ak.last_run(); print(run.status, run.done)")
        return said == "complete True\n"

    await look_until(heard, "the kernel to hear of the end")
