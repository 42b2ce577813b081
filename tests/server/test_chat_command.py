"""`agent-kernel chat` against a real server and kernel: in a pseudo-terminal, and in a pipe."""

import asyncio
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pexpect
import pytest

from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel.testing.wire.chat import streamed
from agent_kernel.testing.wire.reply import failure
from tests.server.client import Api, Kernel
from tests.server.serving import TOKEN, Server

PROGRAM = "import sys; from agent_kernel.cli import main; sys.exit(main(['chat', *sys.argv[1:]]))"
APPROVES = "Approves exactly what is shown."


class TerminalProgram:
    """What a person sees is all that was written, in order: nothing is drawn over."""

    def __init__(self, *arguments: str, token: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self._process = pexpect.spawn(
            sys.executable,
            ["-c", PROGRAM, *arguments],
            env={**inherited, "JUPYTER_TOKEN": token},
            dimensions=(40, 100),
            encoding="utf-8",
            timeout=60,
        )
        self._written = self._process.logfile_read = io.StringIO(newline="")

    @property
    def text(self) -> str:
        return self._written.getvalue().replace("\r", "")

    async def until(self, *texts: str) -> None:
        """Wait for texts, each behind what was waited for before."""
        for text in texts:
            await asyncio.to_thread(self._process.expect_exact, text.replace("\n", "\r\n"))

    def type(self, line: str) -> None:
        self._process.send(f"{line}\n")

    def send(self, keys: str) -> None:
        self._process.send(keys)

    async def ended(self) -> int | None:
        """The exit code."""
        await asyncio.to_thread(self._process.expect_exact, pexpect.EOF)
        self.close()
        status: int | None = self._process.exitstatus
        return status

    def close(self) -> None:
        self._process.close(force=True)


Chat = Callable[..., TerminalProgram]


@pytest.fixture
def address(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}/"


@pytest.fixture
def chat(address: str) -> Iterator[Chat]:
    """Starts the command in a terminal. The server's token is in nothing that it writes."""
    started: list[TerminalProgram] = []

    def start(*arguments: str) -> TerminalProgram:
        started.append(TerminalProgram(*arguments, "--server", address, token=TOKEN))
        return started[-1]

    yield start
    for one in started:
        one.close()
        assert TOKEN not in one.text


@pytest.mark.kernel
async def test_a_person_asks_and_answers_all_that_waits(
    api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel
) -> None:
    model.add(
        calls(call("run_python", code="print(6 * 7)"), call("run_shell", command="echo gone"), text="Both, please."),
        call("run_python", code="1 / 0"),
        call("ask_user", question="Which?", choices=["CSV", "Parquet"]),
        call("ask_user", question="Sure?"),
        say("Parquet it is."),
    )
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    program = chat(conversation_id)
    await program.until("Ask for something")
    program.type("Do both.")
    await program.until("Both, please.", "* Run Python print(6 * 7): Waiting for you\n  │ print(6 * 7)\n", APPROVES)
    program.type("yes")
    await program.until("Type a or d", APPROVES)
    program.type("a")
    await program.until("* Run a command echo gone: Waiting for you", "  │ echo gone\n", APPROVES)
    program.type("d not now")
    await program.until("1 / 0", APPROVES)
    # The two end in either order, the first also while the person types.
    assert re.search(r"Run Python .*: Done, .*\n    42\n", program.text)
    assert re.search(r"Run a command .*: Denied by .*\n.*Reason: not now. Nothing ran.", program.text)
    program.type("a")
    await program.until(
        "Failed, ", "ZeroDivisionError: division by zero", "Which?\n  1  CSV\n  2  Parquet\n", "Your answer"
    )
    program.type("2")
    await program.until("Parquet\n", "Sure?", "Your answer")
    program.type("")
    await program.until("Parquet it is.", "Complete.", "Ask for something")
    program.send("\x04")
    assert await program.ended() == 0
    assert program.text.count("Do both.") == 1
    view = await api.ended(conversation_id)
    states = ["success", "denied", "error", "success", "cancelled"]
    assert [one["state"] for one in view["tool_calls"]] == states
    assert view["tool_calls"][1]["reason"] == "not now"


@pytest.mark.kernel
async def test_a_call_that_is_decided_elsewhere_is_taken_back_and_a_line_that_was_begun_for_it_decides_nothing(
    api: Api, chat: Chat, model: FakeOpenAI, kernel: Kernel
) -> None:
    model.add(call("run_python", code="print('first')"), call("run_python", code="print('second')"), say("Done."))
    conversation_id = await api.begin(kernel)
    program = chat(conversation_id)
    await program.until(APPROVES)
    program.send("a")  # without Enter
    await api.decide(approved=False, reason="elsewhere")
    await program.until("answered elsewhere, and is not asked any more", "Reason: elsewhere. Nothing ran.")
    await program.until("print('second')", APPROVES)
    program.type("")
    await program.until("Type a or d", APPROVES)
    assert [one["state"] for one in await api.pending()] == ["awaiting_approval"]
    await api.decide(approved=False)
    await program.until("answered elsewhere, and is not asked any more", "Done.", "Complete.")


async def test_ctrl_c_leaves_the_run_and_a_typed_word_stops_it(api: Api, chat: Chat, model: FakeOpenAI) -> None:
    whole = streamed(say("The first half, and the rest."))
    model.add(replace(whole, hang_after=whole.body.index(b"rest")))
    conversation_id = await api.begin()
    program = chat(conversation_id)
    await program.until("> Go on.")
    program.send("\x03")
    await program.until(f"The run goes on. Come back: agent-kernel chat {conversation_id}")
    assert await program.ended() == 130
    _, view = await api("GET", "conversations", conversation_id)
    assert view["runs"][0]["status"] == "running"
    program = chat()
    await program.until("> Go on.")
    program.type("/stop")
    await program.until("Stopped.")
    assert (await api.ended(conversation_id))["runs"][0]["status"] == "cancelled"


async def test_in_a_pipe_the_text_is_plain_and_the_exit_code_says_how_the_run_ended(
    api: Api, address: str, model: FakeOpenAI
) -> None:
    async def piped(token: str = TOKEN) -> tuple[int | None, str, str]:
        """The exit code, the output and the errors of the command."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, "--server", address),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "JUPYTER_TOKEN": token},
        )
        out, errors = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode, out.decode(), errors.decode()

    model.add(say("Forty-two."), failure(400, "no"))
    conversation_id = await api.begin()
    code, out, errors = await piped()
    assert (code, errors, "\n  Forty-two.\n" in out, "\x1b" in out) == (0, "", True, False)
    await api.start_run(conversation_id)
    code, out, _ = await piped()
    assert (code, "The model did not answer." in out) == (1, True)
    code, out, errors = await piped(token="wrong")
    assert (code, out, "JUPYTER_TOKEN" in errors, "Traceback" in errors) == (1, "", True, False)
