"""Runs whose calls are done by a real kernel: from approval to outcome, and through every way a kernel can end. What a
site sets holds there, who interrupted a call is told as it is, and runs that cells announce go in their order."""

import asyncio
import json
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel.tools.arguments import canonical
from agent_kernel.tools.walls.inside import found_walls, words_of
from agent_kernel_server.app import LOG_NAME
from agent_kernel_server.kernels import idle
from agent_kernel_server.kernels.served_kernel import ENDED_NOTICE, ServedKernel
from agent_kernel_server.notebooks.notebook_paths import NotebookPaths
from tests.core.tools.builtin.pictures import png_bytes
from tests.flipping import flipped
from tests.notebooks.test_cached_tools import LOOK, TOOL
from tests.server.cells import ASK
from tests.server.client import Api, Kernel, OpenChannel, open_notebook
from tests.server.serving import Server
from tests.waiting import look_until, until

pytestmark = pytest.mark.kernel


async def waiting_call(api: Api, kernel: Kernel) -> tuple[str, Any]:
    """Start a run in the kernel, which has started; its conversation and the first call that waits."""
    await kernel.ready()
    conversation_id = await api.begin(kernel)
    return conversation_id, await api.next_approval()


async def executing(api: Api, conversation_id: str) -> Any:
    async def look() -> Any:
        calls = (await api.get("conversations", conversation_id))["tool_calls"]
        return next((one for one in calls if one["state"] == "executing" and one["outputs"]), None)

    return await look_until(look, "a call that has put out something")


async def test_a_client_that_knows_three_events_gets_the_whole_answer_of_a_run_with_tools(
    api: Api, client: OpenChannel, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(
        calls(
            call("run_python", code="x = 6 * 7\nprint('working')\nx"),
            call("run_python", code="1 / 0"),
            text="Let me see.",
        ),
        say("It is 42."),
    )
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    page = await client(conversation_id)
    await page.send({"type": "message", "content": "Go on."})
    session = await page.next()
    first = await api.next_approval()
    assert first["tool_name"] == "run_python"
    offered = [tool["function"]["name"] for tool in model.requests[0].body["tools"]]
    assert offered == [tool["name"] for tool in session["tools"]], "no cell has declared any"
    faulty = {"approved": True, "edited_input": {"program": "x"}}
    status, refused = await api("POST", "approvals", first["approval_id"], body=faulty)
    assert (status, refused["field"]) == (400, "edited_input")
    body = {"approved": True, "reason": None, "edited_input": None, "scope": None}
    status, decided = await api("POST", "approvals", first["approval_id"], body=body)
    assert status == 200
    assert decided["state"] in ("approved", "executing", "success")
    assert decided["by"] == "user"
    second = await api.next_approval()
    denial = {"approved": False, "reason": "No dividing."}
    assert (await api("POST", "approvals", second["approval_id"], body=denial))[1]["state"] == "denied"
    status, too_late = await api("POST", "approvals", second["approval_id"], body={"approved": True})
    assert (status, too_late["state"], too_late["by"]) == (409, "denied", "user")
    complete = await page.until("complete")
    known = [frame for frame in page.frames if frame["type"] in ("token", "complete", "error")]
    assert "".join(frame["content"] for frame in known if frame["type"] == "token") == "Let me see.It is 42."
    assert complete["finish_reason"] == "stop"
    assert not [frame for frame in known if frame["type"] == "error"]
    view = await api.ended(conversation_id)
    done, refused = view["tool_calls"]
    assert (done["state"], refused["state"], refused["reason"]) == ("success", "denied", "No dividing.")
    assert "working" in done["result"]
    assert "42" in done["result"]
    assert "".join(output["text"] for output in done["outputs"] if output["kind"] == "stream") == "working\n"
    tools = [message for message in model.requests[1].body["messages"] if message["role"] == "tool"]
    assert len(tools) == 2
    assert "No dividing." in tools[1]["content"]
    assert await kernel.text("print(x)") == "42\n"


async def test_a_call_waits_behind_the_users_cell_which_its_card_names_and_survives_that_cells_failure(
    api: Api, kernel: Kernel, model: FakeOpenAI, client: OpenChannel, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    model.add(call("run_python", code="print('after')"), say("Done."))
    conversation_id, waiting = await waiting_call(api, kernel)
    page = await client(conversation_id)
    number = int(await kernel.text("print(len(In) - 1)"))  # of this cell, as on the page
    held = f"import pathlib, time\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.02)"
    kernel.start(f"{held}\nraise ValueError('the cell fails')")
    await page.send({"type": "approval_response", "approval_id": waiting["approval_id"], "approved": True})
    await page.until("tool_start")
    waits = await page.until("tool_state")
    assert (waits["state"], waits["waiting_behind"]) == ("executing", number + 1)
    gate.touch()
    done = await page.until("tool_complete")
    assert (done["state"], done["tool_result"].count("after")) == ("success", 1)
    await page.until("complete")


@pytest.mark.parametrize("extension_traits", [{"shell_walls": "read-only", "shell_environment": ["PGHOST"]}])
async def test_a_card_and_its_result_name_the_sites_walls_and_the_servers_own_files_are_hidden(
    api: Api, kernel: Kernel, model: FakeOpenAI, server: Server
) -> None:
    await kernel.text("import os; os.environ.update(PGHOST='db.lab', LAB_KEY='a-key-of-the-lab')")
    command = f"env; touch new; cat {server.app.info_file} {server.extension.data_dir}/*"
    model.add(call("run_shell", command=command), say("Done."))
    conversation_id = await api.begin(kernel)
    waiting = await api.next_approval()
    words = words_of(found_walls(), "read-only")
    assert waiting["preview"]["facts"][-1] == f"walls: {words}."
    await api.decide(waiting)
    [ended] = (await api.ended(conversation_id))["tool_calls"]
    assert f"walls: {words}" in ended["result"].splitlines()[0]
    if found_walls().kind == "none":
        return
    assert (ended["state"], "PGHOST=db.lab" in ended["result"]) == ("error", True)
    for secret in ("a-key-of-the-lab", server.app.identity_provider.token, "SQLite format 3"):
        assert secret not in ended["result"]
    assert "stopped by the walls: " in ended["result"]


PROMPT = "%%agent --wait --tools look,change --policy allow\nGo."


async def test_an_outcome_is_given_again_until_a_cell_of_the_users_or_a_call_has_run(
    api: Api, loaded: Kernel, model: FakeOpenAI
) -> None:
    model.add(LOOK, say("1"), LOOK, say("2"), LOOK, say("3"), call("change"), LOOK, LOOK, say("4"))
    for cell in (TOOL, PROMPT, PROMPT, "x = 2", PROMPT, PROMPT):
        await loaded.run(cell)
    [conversation] = await api.get("conversations")
    looked = [one for one in conversation["tool_calls"] if one["tool_name"] == "look"]
    assert [one["cached_at"] is not None for one in looked] == [False, True, False, False, True]
    assert [one["result"].split("\n")[-1] for one in looked] == ["1", "1", "2", "2", "2"]
    assert looked[1]["result"].startswith("Stored outcome of 0 minutes ago. ")


PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.title('Peak');"
SEEING = "%%agent --model gpt-5 --policy allow\n"
"""The fake server serves any name, and this one says that its model takes images."""


@pytest.mark.parametrize("extension_traits", [{"send_images": False}])
async def test_where_the_site_keeps_pictures_none_leaves_the_machine(
    api: Api, open_kernel: Kernel, model: FakeOpenAI, analysis: Path
) -> None:
    (analysis.parent / "figure.png").write_bytes(png_bytes(40, 30))
    model.add(call("run_python", code=PLOT), say("I can't see it."))
    await open_kernel.run(f"{SEEING}Draw it like ![](figure.png).")
    view = await api.ended((await api.listed("runs"))[0]["conversation_id"])
    assert [one["seen_images"] for one in view["tool_calls"]] == [0]
    assert "image_url" not in str([request.body for request in model.requests])
    _, prompt, *_, tool = model.requests[-1].body["messages"]
    assert "[The user's message has a picture: 40 x 30 pixels. You can't see it.]" in prompt["content"]
    assert tool["content"].endswith("[A plot was shown to the user: 556 x 434 pixels. You can't see it.]")


READS = 40


async def test_no_unasked_read_leaves_the_folder_while_a_folder_in_it_is_flipped(
    api: Api, kernel: Kernel, model: FakeOpenAI, tmp_path: Path
) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    for place, text in ((work / "data", "inside\n"), (outside, "secret\n")):
        place.mkdir(parents=True)
        (place / "x.csv").write_text(text)
    await kernel.text(f"import os; os.chdir({str(work)!r})")
    for turn in range(5):  # each asks in other words: reads that all found the same would be stopped as a repetition
        model.add(calls(*[call("read_file", path=f"{'./' * turn}data/x.csv") for _ in range(READS // 5)]))
    model.add(say("Done."))
    with flipped(work / "data", outside):
        # What is not allowed unasked is denied in the mode plan.
        view = await api.ended(await api.begin(kernel, policy="plan"))
    states = [one["state"] for one in view["tool_calls"]]
    assert len(states) == READS
    assert set(states) <= {"success", "denied", "error"}
    assert [one["result"] for one in view["tool_calls"] if "secret" in one["result"]] == []


SLEEPS = "import time\nprint('in', flush=True)\ntime.sleep(600)"


async def test_stop_interrupts_the_call_and_not_the_users_cell(
    api: Api, client: OpenChannel, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code=SLEEPS))
    conversation_id, waiting = await waiting_call(api, kernel)
    await api.decide(waiting)
    await executing(api, conversation_id)
    users_cell = asyncio.create_task(kernel.text("import time; time.sleep(0.5); print('untouched')"))
    page = await client(conversation_id)
    run_id = (await page.next())["snapshot"]["runs"][0]["run_id"]
    await page.send({"type": "cancel", "run_id": run_id})
    view = await api.ended(conversation_id)
    assert (view["runs"][0]["status"], view["tool_calls"][0]["state"]) == ("cancelled", "cancelled")
    assert await users_cell == "untouched\n"


async def test_of_two_conversations_that_share_call_ids_each_cancels_and_undoes_its_own_calls(
    api: Api, client: OpenChannel, kernel: Kernel, model: FakeOpenAI, tmp_path: Path
) -> None:
    """Both write a file as call_0. Then the second one's call_1 waits behind the first one's, which runs."""
    gate, files = tmp_path / "gate", [tmp_path / "first.md", tmp_path / "second.md"]
    waits = f"import os, time\nprint('in', flush=True)\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)"

    def answer(body: dict[str, Any]) -> ModelTurn:
        if body["messages"][-1]["role"] == "tool":
            return say("Done.")
        path = next(str(file) for file in files if str(file) in str(body["messages"]))
        written = call("write_file", call_id="call_0", path=path, content="new")
        return calls(written, call("run_python", call_id="call_1", code=waits))

    model.add(*[answer] * 4)
    pages, asked = [], []
    for file in files:
        file.write_text("old")
        pages.append(page := await client(await api.begin(kernel, f"Write {file}")))
        asked.append({one["tool_call_id"]: one for one in [await page.until("approval_request") for _ in "01"]})
        await api.decide(asked[-1]["call_0"])
        assert (await page.until("tool_complete"))["state"] == "success"
    for page, requests, seen in zip(pages, asked, ("tool_output", "tool_start"), strict=True):
        await api.decide(requests["call_1"])
        await page.until(seen)
    first, second = pages
    await second.send({"type": "tool_cancel", "tool_call_id": "call_1"})
    assert (await second.until("tool_complete"))["state"] == "cancelled"
    gate.touch()
    ended = await first.until("tool_complete")
    assert (ended["state"], ended["tool_result"]) == ("success", "in")
    for page, left in ((second, ["new", "old"]), (first, ["old", "old"])):
        await page.until("complete")
        await page.send({"type": "tool_undo", "tool_call_id": "call_0"})
        await page.until("tool_undone")
        assert [file.read_text() for file in files] == left


@pytest.mark.parametrize("how", ["restart", "shutdown"])
async def test_a_user_who_ends_the_kernel_ends_the_call_and_the_run(
    api: Api, fresh_kernel: Kernel, model: FakeOpenAI, how: str, server: Server
) -> None:
    model.add(calls(call("run_python", code=SLEEPS), call("run_python", code="2")))
    conversation_id, waiting = await waiting_call(api, fresh_kernel)
    await api.decide(waiting)
    await executing(api, conversation_id)
    if how == "restart":
        await server.fetch("api", "kernels", fresh_kernel.kernel_id, "restart", method="POST", body="")
    else:
        await server.fetch("api", "kernels", fresh_kernel.kernel_id, method="DELETE")
    view = await api.ended(conversation_id)
    running, waiting = view["tool_calls"]
    assert running["state"] in ("cancelled", "unknown")  # Jupyter interrupts it first
    assert waiting["state"] == "cancelled"
    assert (view["runs"][0]["status"], view["runs"][0]["error"]) == ("cancelled", None)
    assert [notice["content"] for notice in view["runs"][0]["notices"]] == [ENDED_NOTICE]
    assert await api.pending() == []


@pytest.mark.usefixtures("fresh")
async def test_a_kernel_is_culled_once_its_run_has_waited_too_long_and_the_run_says_what_ran(
    api: Api, kernel: Kernel, model: FakeOpenAI, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "PAUSE_SECONDS", 0.05)
    manager, found = server.app.kernel_manager, server.service.kernels.idle
    monkeypatch.setattr(manager, "cull_idle_timeout", 60)
    model.add(calls(call("list_files"), call("run_python", code="1")))
    conversation_id, _ = await waiting_call(api, kernel)
    jupyters = manager.get_kernel(kernel.kernel_id)
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    jupyters.last_activity = an_hour_ago
    await until(lambda: jupyters.last_activity > an_hour_ago)  # as if something had run there
    monkeypatch.setattr(found, "waiting_seconds", 0)
    await until(lambda: kernel.kernel_id in found.idle)
    jupyters.last_activity = an_hour_ago
    await manager.cull_kernel_if_idle(kernel.kernel_id)
    run = (await api.ended(conversation_id))["runs"][0]
    assert (run["status"], run["error"]["code"]) == ("error", "KERNEL_DIED")
    hour = "1\N{NO-BREAK SPACE}h 0\N{NO-BREAK SPACE}min"
    expected = f"Jupyter culled the kernel, which had been idle for {hour} (cull_idle_timeout of this server)."
    assert run["error"]["message"] == f"{expected} Ran: list_files. Did not run: run_python."


@pytest.mark.parametrize("asleep", [False, True])
async def test_an_interrupt_of_the_kernel_stops_a_run_that_no_cell_has_started(
    api: Api, kernel: Kernel, model: FakeOpenAI, server: Server, asleep: bool
) -> None:
    model.add(call("run_python", code=SLEEPS if asleep else "1"))
    conversation_id, waiting = await waiting_call(api, kernel)
    if asleep:
        await api.decide(waiting)
        await executing(api, conversation_id)
    await server.fetch("api", "kernels", kernel.kernel_id, "interrupt", method="POST", body="")
    view = await api.ended(conversation_id)
    assert (view["runs"][0]["status"], view["tool_calls"][0]["state"]) == ("cancelled", "cancelled")
    assert view["runs"][0]["notices"][0]["content"] == "Stopped, because the kernel was interrupted."
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise KeyboardInterrupt('mine')", ["The code raised KeyboardInterrupt itself", "mine"]),
        ("subprocess.run('kill -INT $PPID', shell=True)\ntime.sleep(600)", ["by a signal (SIGINT), not by the user"]),
    ],
    ids=["raised", "signalled"],
)
async def test_an_interrupt_that_nobody_asked_jupyter_for_is_not_the_users_and_the_model_goes_on(
    api: Api, kernel: Kernel, model: FakeOpenAI, code: str, said: list[str]
) -> None:
    # A kernel asks the server for a second at most who has interrupted it: whoever is silent is a person.
    asks = "from agent_kernel.notebook.kernel import to_server\nassert to_server.ASK_SECONDS\n"
    await kernel.text(f"{asks}to_server.ASK_SECONDS = 60")
    model.add(call("run_python", code=f"import subprocess, time\nprint('in', flush=True)\n{code}"), say("I go on."))
    conversation_id, waiting = await waiting_call(api, kernel)
    await api.decide(waiting)
    view = await api.ended(conversation_id)
    (one,) = view["tool_calls"]
    assert (one["state"], view["runs"][0]["status"]) == ("error", "complete")
    assert [words for words in said if words not in one["result"]] == []
    assert "Cancelled" not in one["result"]
    assert view["messages"][-1]["content"] == "I go on."


async def test_runs_go_in_the_order_of_their_cells_though_the_notebook_of_the_first_is_found_late(
    api: Api, open_kernel: Kernel, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    declaration_of, find = ServedKernel._declaration_of, NotebookPaths.notebook_of
    declared: list[None] = []
    asked: list[None] = []

    async def declaration_is_noted(self: ServedKernel, *args: Any) -> Any:
        declaration = await declaration_of(self, *args)
        declared.append(None)
        return declaration

    async def find_late(self: NotebookPaths, *args: Any) -> Any:
        asked.append(None)
        if len(asked) == 1:
            await until(lambda: len(declared) == 2)
            await asyncio.sleep(0.2)  # long enough for the second one to start, where nothing keeps it from that
        return await find(self, *args)

    monkeypatch.setattr(ServedKernel, "_declaration_of", declaration_is_noted)
    monkeypatch.setattr(NotebookPaths, "notebook_of", find_late)
    model.add(say("One."), say("Two."))
    await open_kernel.run(
        "import agent_kernel as ak\nagent = ak.Agent()\nruns = [agent.start('First.'), agent.start('Second.')]"
    )
    runs = await api.listed("runs", 2)
    view = await api.ended(runs[0]["conversation_id"])
    assert [message["content"] for message in view["messages"] if message["role"] == "user"] == ["First.", "Second."]


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
    await open_kernel.run(ASK)  # what came before it on the same socket has been handled when this run has ended
    [run] = await api.listed("runs")
    await api.ended(run["conversation_id"])
    assert [view["conversation_id"] for view in await api.get("conversations")] == [run["conversation_id"]]


FIRST, SECOND = "page-of-the-first", "page-of-the-second"


@pytest_asyncio.fixture(loop_scope="module")
async def shared(server: Server, loaded: Kernel) -> Kernel:
    """The kernel of two notebooks, each with a saved cell that was run."""
    for name, page in (("first", FIRST), ("second", SECOND)):
        cell = nbformat.v4.new_code_cell("1", id=f"saved-in-{name}")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), server.root / f"{name}.ipynb")
        await open_notebook(server.fetch, f"{name}.ipynb", loaded.kernel_id)
        await loaded.run("1", cell_id=cell.id, page=page)
    return loaded


async def test_a_prompt_tells_of_the_notebook_of_its_cell_though_it_was_never_saved(
    shared: Kernel, model: FakeOpenAI
) -> None:
    for cell_id, page, told in (
        ("new-in-second", SECOND, "second.ipynb"),
        ("saved-in-second", "a page that was reloaded", "second.ipynb"),
        ("new", "a page of which nothing is known", "first.ipynb"),
    ):
        model.add(say("Good."))
        await shared.run("%agent --wait Go.", cell_id=cell_id, page=page)
        prompts = [one["content"] for one in model.requests[-1].body["messages"] if one["role"] == "user"]
        assert f"You work in the notebook {told}," in prompts[-1], cell_id


PASSWORD = "correct horse battery"
CODE = """
from getpass import getpass
name = input("Name: ")
password = getpass("Password: ")
print("Hello,", name, password)
again = input()
"""


def kept(folder: Path) -> str:
    """All that the log's files hold."""
    files = list(folder.glob(f"{LOG_NAME}*"))
    assert files
    return b"".join(file.read_bytes() for file in files).decode(errors="replace")


async def asked(api: Api, **question: str) -> Any:
    """The next question of the code."""

    async def look() -> Any:
        calls = await api.get("approvals", state="executing")
        return next((one for one in calls if one["tool_input"] == canonical(question)), None)

    return await look_until(look, "the question")


async def printed(api: Api, conversation_id: str, text: str) -> None:
    """Until a call has printed this."""

    async def look() -> bool:
        calls = (await api.get("conversations", conversation_id))["tool_calls"]
        return text in "".join(output["text"] for one in calls for output in one["outputs"])

    await look_until(look, text)


async def test_code_that_asks_for_lines_gets_them_in_order_and_a_password_is_kept_nowhere(
    api: Api, loaded: Kernel, model: FakeOpenAI, server: Server
) -> None:
    model.add(call("run_python", code=CODE), call("inspect_variables"), say("Done."))
    conversation_id = await api.begin(loaded)
    await api.decide()
    for line, question, text, before in (
        ("text", "Name:", "Ana", ""),
        ("password", "Password:", PASSWORD, "Name: Ana"),
        ("text", "The code asks for a line.", "", "Hello, Ana"),
    ):
        question_call = await asked(api, question=question, line=line)
        await printed(api, conversation_id, before)  # output and questions come on channels of their own
        await api("POST", "approvals", question_call["approval_id"], "result", body={"output": text})
    ended = await api.ended(conversation_id)
    code, looked, *questions = sorted(ended["tool_calls"], key=lambda one: one["tool_name"] == "ask_user")
    assert [one["result"] for one in questions] == ["Ana", "A password was typed. It is not kept.", ""]
    shown = "".join(one["text"] for one in code["outputs"])
    assert shown.startswith("Name: Ana\nPassword: ········\nHello, Ana ")
    assert code["state"] == looked["state"] == "success"
    told = json.dumps([request.body for request in model.requests])
    for place in (json.dumps(ended), told, kept(Path(server.extension.data_dir))):
        assert PASSWORD not in place
