"""`agent-kernel chat` against a real server and kernel: in a pseudo-terminal, and in a pipe."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp

from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel.testing.wire.chat import streamed
from agent_kernel.testing.wire.reply import failure, rate_limited
from agent_kernel_server.app import AgentKernelServer
from tests.server.client import Api, Kernel
from tests.server.terminal import PROGRAM, TerminalProgram

Chat = Callable[..., TerminalProgram]
APPROVES = "Approves exactly what is shown."


@pytest.fixture
def address(extension: AgentKernelServer, jp_http_port: int) -> str:
    return f"http://127.0.0.1:{jp_http_port}/"


@pytest.fixture
def token(jp_serverapp: ServerApp) -> str:
    return str(jp_serverapp.identity_provider.token)


@pytest.fixture
def chat(address: str, token: str) -> Iterator[Chat]:
    """Starts the command in a terminal. The server's token is in nothing that it writes."""
    started: list[TerminalProgram] = []

    def start(*arguments: str, **options: Any) -> TerminalProgram:
        started.append(TerminalProgram(*arguments, "--server", address, token=token, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()
        assert token not in one.text


@pytest.mark.kernel
async def test_a_person_asks_and_answers_all_that_waits(
    api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel, tmp_path: Path
) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text("import sys; open(sys.argv[1], 'w').write('print(7)\\n')")
    model.add(
        calls(call("run_python", code="print(6 * 7)"), call("run_shell", command="echo gone"), text="Both, please."),
        calls(call("run_python", code="print(1)"), call("run_python", code="1 / 0")),
        call("run_python", code="print(0)"),
        call("run_shell", command="git status"),
        calls(call("run_python", code="print(3)"), call("run_python", code="print(4)")),
        call("ask_user", question="Which?", choices=["CSV", "Parquet"]),
        call("ask_user", question="Sure?"),
        say("Parquet it is."),
    )
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    program = chat(conversation_id, variables={"VISUAL": f"{sys.executable} {editor}"})
    await program.until("Ask for something")
    program.type("Do both.")
    shown = await program.until("Both, please.", f"run_python (1 of 2): {APPROVES}")
    assert "  │ print(6 * 7)\n" in shown
    assert "  │ echo gone\n" in shown
    program.type("a")
    await program.until(f"run_shell: {APPROVES}")
    program.type("d")
    await program.until("Reason (optional")
    program.type("not now")
    shown = await program.until("[A] Approve all (2)")
    assert "Reason: not now. Nothing ran." in shown
    assert "    42\n  Done, " in program.text
    program.type("A")
    await program.until("ZeroDivisionError: division by zero", "Failed, ", APPROVES)
    program.type("e")
    await program.until("  │ print(7)\n", "Approves your version.")
    program.type("a")
    await program.until("Edited and approved by ", "    7\n", "[l] Always allow")
    program.type("l")
    await program.until("What?", "[b] Back")
    program.type("1")
    await program.until("Where?", "[1] This conversation", "[b] Back")
    program.type("1")
    await program.until("Rule: allow run_shell", " in this conversation\n", "[s] Save rule and approve")
    program.type("s")
    await program.until("[D] Deny all")
    program.type("D")
    await program.until("Which?\n    1  CSV\n    2  Parquet\n", "Your answer:")
    program.type("2")
    await program.until("Answer: Parquet", "Sure?", "Your answer:")
    program.type("")
    await program.until("[s] Skip")
    program.type("s")
    await program.until("Parquet it is.", "Complete.", "Ask for something")
    program.send("\x04")
    assert await program.ended() == 0
    view = await api.ended(conversation_id)
    states = "success denied success error success success denied denied success cancelled"
    assert [one["state"] for one in view["tool_calls"]] == states.split()
    assert view["tool_calls"][1]["reason"] == "not now"
    assert "print(7)" in view["tool_calls"][4]["tool_input"]
    _, rules = await api("GET", "rules")
    assert [rule["scope"] for rule in rules] == ["conversation"]


async def test_a_rate_limit_is_said_and_a_person_does_not_wait_for_it(api: Api, chat: Chat, model: FakeOpenAI) -> None:
    model.add(rate_limited(retry_after="100"), say("At last."), failure(400, "no"), say("Now."))
    conversation_id = await api.new_conversation()
    await api.start_run(conversation_id)
    program = chat(conversation_id)
    await program.until("Rate limited, next try in ", "(try 2 of 4). Rate limit reached. Ctrl+C: Try now, Stop.")
    program.send("\x03")
    await program.until("Try now")
    program.type("n")
    await program.until("At last.", "Complete.", "Ask for something")
    program.type("More")
    await program.until("> More", "The model did not answer.", "Failed.", "/retry: Try again.")
    program.type("/retry")
    await program.until("Now.", "Complete.")


@pytest.mark.kernel
async def test_a_call_that_is_decided_elsewhere_is_taken_back_and_a_line_that_was_begun_for_it_decides_nothing(
    api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel
) -> None:
    model.add(call("run_python", code="print('first')"), call("run_python", code="print('second')"), say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    await api.start_run(conversation_id)
    program = chat(conversation_id)
    await program.until(APPROVES)
    program.send("a")  # without Enter
    waiting = await api.next_approval()
    status, _ = await api("POST", "approvals", waiting["approval_id"], body={"approved": False, "reason": "elsewhere"})
    assert status == 200
    await program.until("answered elsewhere, and is not asked any more", "Reason: elsewhere. Nothing ran.")
    await program.until("print('second')", APPROVES)
    program.type("")
    await program.until("Type one of a, d", APPROVES)
    assert [one["state"] for one in await api.pending()] == ["awaiting_approval"]
    waiting = await api.next_approval()
    await api("POST", "approvals", waiting["approval_id"], body={"approved": False})
    await program.until("answered elsewhere, and is not asked any more", "Done.", "Complete.")


@pytest.mark.kernel
async def test_an_outcome_that_nobody_knows_is_asked_about(
    api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel
) -> None:
    model.add(call("run_python", code="import os; os._exit(1)"), say("I will look first."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    await api.start_run(conversation_id)
    program = chat(conversation_id)
    await program.until(APPROVES)
    program.type("a")
    await program.until("Outcome unknown", "[r] Run again")
    program.type("c")
    await program.until("I will look first.", "Complete.")
    view = await api.ended(conversation_id)
    assert [(one["state"], one["unknown_answer"]) for one in view["tool_calls"]] == [("unknown", "continue")]


async def test_a_half_written_answer_is_shown_and_ctrl_c_leaves_the_run_or_stops_it(
    api: Api, chat: Chat, model: FakeOpenAI
) -> None:
    whole = streamed(say("The first half, and the rest."))
    model.add(replace(whole, hang_after=whole.body.index(b"rest")))
    conversation_id = await api.new_conversation()
    await api.start_run(conversation_id)
    first = chat(conversation_id)
    await first.until("The first half")
    second = chat("--latest")
    await second.until("The first half")
    first.send("\x03")
    await first.until("Stop the run, or leave?")
    first.type("l")
    await first.until(f"The run goes on. Come back: agent-kernel chat {conversation_id}")
    assert await first.ended() == 0
    _, view = await api("GET", "conversations", conversation_id)
    assert view["runs"][0]["status"] == "running"
    second.send("\x03")
    await second.until("Stop the run, or leave?")
    second.type("s")
    await second.until("Stopped.")
    assert (await api.ended(conversation_id))["runs"][0]["status"] == "cancelled"


@pytest.mark.kernel
async def test_a_lost_connection_neither_repeats_nor_loses_a_line(
    api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel, extension: AgentKernelServer
) -> None:
    model.add(call("run_python", code="for i in range(3): print('line', i)"), say("Over."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    await api.start_run(conversation_id)
    program = chat(conversation_id)
    await program.until(APPROVES)
    service = extension.service
    assert service is not None
    (stream,) = service.streams
    stream.close()
    approval_id = (await api.next_approval())["approval_id"]
    await api("POST", "approvals", approval_id, body={"approved": True})
    await program.until("Connected again.", "Complete.")
    for line in ("line 0", "line 1", "line 2", "Over."):
        assert program.text.count(line) == 1, program.text


class TestWithABudget:
    @pytest.fixture
    def extension_traits(self) -> dict[str, Any]:
        return {"default_budget": {"steps": 1}}

    @pytest.mark.kernel
    async def test_a_conversation_is_chosen_and_its_paused_run_goes_on_with_more(
        self, api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel
    ) -> None:
        model.add(say("An earlier one."), call("inspect_variables"), say("Went on."))
        over = await api.new_conversation()
        await api.start_run(over, "Say something.")
        await api.ended(over)
        await api.start_run(await api.new_conversation(kernel_id=kernel.kernel_id), "Look around.")
        program = chat()
        rows = await program.until("Which conversation?")
        assert "Look around." in rows
        assert "Say something." not in rows
        program.type("1")
        await program.until("Budget reached: 1 of 1 steps.", "what is done stays.")
        program.type("c")
        await program.until("Add steps:")
        program.type("1")
        await program.until("Budget raised by ", "Went on.")


async def in_pipes(*arguments: str, token: str) -> asyncio.subprocess.Process:
    """The command, started."""
    environment = {**os.environ, "JUPYTER_TOKEN": token}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=environment, limit=1_000_000,
    )  # fmt: skip


async def piped(*arguments: str, token: str) -> tuple[int | None, str, str]:
    """The command in pipes: its exit code, output and errors."""
    process = await in_pipes(*arguments, token=token)
    out, errors = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode(), errors.decode()


async def test_in_a_pipe_the_text_is_plain_and_the_exit_code_says_how_the_run_ended(
    api: Api, address: str, token: str, model: FakeOpenAI
) -> None:
    model.add(say("Forty-two."))
    conversation_id = await api.new_conversation()
    await api.start_run(conversation_id)
    code, out, errors = await piped(conversation_id, "--server", address, token=token)
    assert (code, errors) == (0, "")
    assert "\n  Forty-two.\n" in out
    assert "\x1b" not in out
    model.add(failure(400, "no"))
    await api.start_run(conversation_id)
    code, out, _ = await piped("--latest", "--server", address, token=token)
    assert code == 1
    assert "The model did not answer." in out


@pytest.mark.kernel
async def test_events_are_lines_of_json_for_scripts(
    api: Api, address: str, token: str, model: FakeOpenAI, kernel: Kernel
) -> None:
    model.add(call("run_python", code="1"), say("Forty-two."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    await api.start_run(conversation_id)
    waiting = await api.next_approval()
    following = await in_pipes(conversation_id, "--json", "--server", address, token=token)
    assert following.stdout is not None
    first = json.loads(await asyncio.wait_for(following.stdout.readline(), 60))
    await api("POST", "approvals", waiting["approval_id"], body={"approved": False})
    out, _ = await asyncio.wait_for(following.communicate(), 60)
    events = [json.loads(line) for line in out.decode().splitlines()]
    assert following.returncode == 0
    assert first["type"] == "session"
    assert [one["type"] for one in events][-2:] == ["complete", "run"]
    assert events[-1]["run"]["status"] == "complete"


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        (("nowhere",), None, "There is no conversation 'nowhere'"),
        (("nowhere",), "wrong", "JUPYTER_TOKEN"),
        (("--latest", "--server", "http://127.0.0.1:9/"), None, "There is no connection to the server"),
        (("--latest", "--server", "file:///etc"), None, "--server is the address"),
    ],
)
async def test_what_is_wrong_is_said_with_what_to_do(
    address: str, token: str, arguments: tuple[str, ...], given: str | None, said: str
) -> None:
    code, out, errors = await piped("--server", address, *arguments, token=given or token)
    assert (code, out) == (1, "")
    assert said in errors
    assert "Traceback" not in errors
    assert token not in errors


async def test_a_running_server_is_found_with_its_token(
    api: Api, extension: AgentKernelServer, jp_serverapp: ServerApp, token: str, model: FakeOpenAI
) -> None:
    model.add(say("Found."))
    await api.start_run(await api.new_conversation())
    jp_serverapp.write_server_info_file()
    code, out, errors = await piped("--latest", token="")
    assert (code, errors) == (0, "")
    assert "Found." in out
    assert token not in out
