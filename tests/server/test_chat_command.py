"""`agent-kernel chat` against a real server and kernel: in a pseudo-terminal, and in a pipe."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
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
def jp_base_url() -> str:
    return "/"


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
        assert token not in one.raw


@pytest.mark.kernel
async def test_a_person_asks_approves_denies_and_answers(
    api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel
) -> None:
    both = calls(call("run_python", code="print(6 * 7)"), call("run_shell", command="echo gone"), text="Both, please.")
    model.add(both, call("ask_user", question="Which?", choices=["CSV", "Parquet"]), say("Parquet it is."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    program = chat(conversation_id)
    await program.until("Ask for something")
    await program.press("Do both.\r")
    await program.until("2 calls are waiting for you.")
    shown = await program.until(f"run_python (1 of 2): {APPROVES}")
    assert "print(6 * 7)" in shown
    assert "echo gone" in shown
    await program.press("a")
    await program.until(f"run_shell: {APPROVES}")
    await program.press("d")
    await program.until("Reason:")
    await program.press("not now\r")
    await program.until("Your answer:")
    await program.press("2\r")
    await program.until("Answer: Parquet")
    await program.until("Parquet it is.")
    await program.until("Complete.")
    await program.until("Ask for something")
    await program.press("\x04")
    assert await program.ended() == 0
    view = await api.ended(conversation_id)
    by_tool = {one["tool_name"]: one for one in view["tool_calls"]}
    assert (by_tool["run_python"]["state"], by_tool["run_python"]["result"]) == ("success", "42")
    assert (by_tool["run_shell"]["state"], by_tool["run_shell"]["reason"]) == ("denied", "not now")
    assert by_tool["ask_user"]["result"] == "Parquet"


async def test_a_rate_limit_is_said_and_a_person_does_not_wait_for_it(api: Api, chat: Chat, model: FakeOpenAI) -> None:
    model.add(rate_limited(retry_after="100"), say("At last."))
    conversation_id = await api.new_conversation()
    await api.start_run(conversation_id)
    program = chat(conversation_id)
    await program.until("Rate limited, next try in 1 min ")
    await program.until("(try 2 of 4). Rate limit reached. Ctrl+C: Try now, Stop.")
    await program.press("\x03")
    await program.until("Try now")
    await program.press("n")
    await program.until("At last.")
    await program.until("Complete.")


@pytest.mark.kernel
async def test_a_call_that_is_decided_elsewhere_is_not_asked_about_any_more(
    api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel
) -> None:
    model.add(call("run_python", code="print('once')"), say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    await api.start_run(conversation_id)
    program = chat(conversation_id)
    await program.until(APPROVES)
    waiting = await api.next_approval()
    status, _ = await api("POST", "approvals", waiting["approval_id"], body={"approved": False, "reason": "elsewhere"})
    assert status == 200
    await program.until('"elsewhere" Nothing ran.')
    await program.until("Complete.")


@pytest.mark.kernel
async def test_all_calls_on_screen_are_approved_by_one_key_and_edited_in_the_editor(
    api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel, tmp_path: Any
) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text("import sys; open(sys.argv[1], 'w').write('print(7)\\n')")
    both = calls(call("run_python", code="print(1)"), call("run_python", code="print(2)"))
    model.add(call("run_python", code="print(0)"), both, say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    await api.start_run(conversation_id)
    program = chat(conversation_id, variables={"VISUAL": f"{sys.executable} {editor}"})
    await program.until(APPROVES)
    await program.press("e")
    assert "print(7)" in await program.until("Approves your version.")
    await program.press("a")
    await program.until("Edited and approved by ")
    await program.until("Approve all (2)")
    await program.press("A")
    await program.until("Complete.")
    view = await api.ended(conversation_id)
    assert [one["result"] for one in view["tool_calls"]][1:] == ["1", "2"]
    assert "print(7)" in view["tool_calls"][0]["tool_input"]


@pytest.mark.kernel
async def test_all_calls_are_denied_by_one_key_and_a_question_is_skipped(
    api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel
) -> None:
    both = calls(call("run_python", code="print(1)"), call("run_python", code="print(2)"))
    model.add(both, call("ask_user", question="Which?"), say("Then I leave it."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    await api.start_run(conversation_id)
    program = chat(conversation_id)
    await program.until("Deny all")
    await program.press("D")
    await program.until("Your answer:")
    await program.press("\x1b")
    await program.until("[s] Skip")
    await program.press("s")
    await program.until("Then I leave it.")
    await program.until("Complete.")
    view = await api.ended(conversation_id)
    assert [one["state"] for one in view["tool_calls"]] == ["denied", "denied", "cancelled"]


@pytest.mark.kernel
async def test_an_outcome_that_nobody_knows_is_asked_about(
    api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel
) -> None:
    model.add(call("run_python", code="import os; os._exit(1)"), say("I will look first."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    await api.start_run(conversation_id)
    program = chat(conversation_id)
    await program.until(APPROVES)
    await program.press("a")
    await program.until("[r] Run again")
    await program.press("c")
    await program.until("I will look first.")
    await program.until("Complete.")
    view = await api.ended(conversation_id)
    assert [(one["state"], one["unknown_answer"]) for one in view["tool_calls"]] == [("unknown", "continue")]


@pytest.mark.kernel
async def test_a_rule_is_shown_before_it_is_saved(api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel) -> None:
    model.add(call("run_shell", command="git status"), say("Done."))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    await api.start_run(conversation_id)
    program = chat(conversation_id)
    await program.until(APPROVES)
    await program.press("l")
    await program.until("What?")
    await program.press("1")
    await program.until("Where?")
    await program.press("1")
    await program.until("Rule: allow run_shell")
    await program.press("s")
    await program.until("Complete.")
    _, rules = await api("GET", "rules")
    assert [rule["scope"] for rule in rules] == ["conversation"]


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
    await first.press("\x03")
    await first.until("Stop the run, or leave?")
    await first.press("l")
    await first.until(f"The run goes on. Come back: agent-kernel chat {conversation_id}")
    assert await first.ended() == 0
    _, view = await api("GET", "conversations", conversation_id)
    assert view["runs"][0]["status"] == "running"
    await second.press("\x03")
    await second.until("Stop the run, or leave?")
    await second.press("s")
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
    await program.until("Connected again.")
    await program.until("Complete.")
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
        await program.press("1\r")
        await program.until("Steps: 1 of 1")
        await program.until("what is done stays.")
        await program.press("c")
        await program.until("Add steps:")
        await program.press("\r")
        await program.until("Budget raised by ")
        await program.until("Went on.")


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
        (("nowhere",), None, "There is no such conversation"),
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
