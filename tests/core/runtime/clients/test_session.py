"""A client's session, the same over a socket and over the messages of a widget: the whole conversation first, then what
happens, and a reply to each command that names itself."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agent_kernel import errors
from agent_kernel.notebook.hosts.widget_channel import WidgetChannel
from agent_kernel.protocol.commands import MAX_FRAME_BYTES
from agent_kernel.protocol.events import ApprovalResponseEvent
from agent_kernel.runtime.clients import session as sessions
from agent_kernel.runtime.clients.dispatch import Right, reply_for
from agent_kernel.runtime.clients.session import ClientSession
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.runtime.runtime_fixtures import Stage, Stages

Frame = dict[str, Any]


class Line:
    """What the tests see of either transport."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[str | bytes] = asyncio.Queue()
        self.tasks = TaskOwner()

    async def next(self, kind: str | None = None) -> Frame:
        """The next frame, or the next of a type."""
        async with asyncio.timeout(60):
            while True:
                frame: Frame = json.loads(await self.came.get())
                if kind in (None, frame["type"]):
                    return frame

    async def seqs(self, count: int) -> list[int]:
        """Of so many frames."""
        return [(await self.next())["seq"] for _ in range(count)]

    async def answer(self, kind: str, **fields: Any) -> Frame:
        """Send a command with an id; the first frame that names it."""
        self.say({"type": kind, "id": "the one", **fields})
        return (await self.replies("the one"))[-1]

    async def replies(self, last: str) -> list[Frame]:
        """The frames that name a command, up to the first that names this one."""
        named: list[Frame] = []
        while not named or named[-1]["command_id"] != last:
            frame = await self.next()
            named += [frame] if frame.get("command_id") is not None else []
        return named

    def say(self, command: Frame) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        await self.tasks.aclose()


class Socket(Line):
    """Hears of each client, and reads a frame when the one before it is done with."""

    def __init__(self, conversation: Conversation, **options: Any) -> None:
        super().__init__()
        self.session = ClientSession(conversation, self, **options)
        self.running = self.tasks.spawn(self.session.run(), "run")
        self._said: asyncio.Queue[str | bytes] = asyncio.Queue()
        self.tasks.spawn(self._read(), "read")

    async def send(self, frame: bytes) -> None:
        self.came.put_nowait(frame)

    async def _read(self) -> None:
        while True:
            await self.session.receive(await self._said.get())

    def say(self, command: Frame | str | bytes) -> None:
        self._said.put_nowait(command if isinstance(command, str | bytes) else json.dumps(command))


class Widget(Line):
    """The messages of a widget, of which pages come unheard: each says first where it left off."""

    def __init__(self, conversation: Conversation, *, begins: bool = True) -> None:
        super().__init__()
        self.comm = SimpleNamespace(handle_msg=None)
        self._channel = WidgetChannel(self, asyncio.get_running_loop(), self.tasks)
        self._channel.attach()
        self._channel.open(conversation)
        if begins:
            self.say({"type": "resume", "last_seq": 0})

    _handle_msg = None

    def on_command(self, callback: Callable[[Frame], None]) -> None:
        self._callback = callback

    def post_frames(self, frames: list[str]) -> None:
        for frame in frames:
            self.came.put_nowait(frame)

    def say(self, command: Frame) -> None:
        self._callback(command)

    async def close(self) -> None:
        self._channel.close()
        await super().close()


@pytest.fixture
async def opened() -> AsyncIterator[Any]:
    """Opens a line of a class, which is closed at the end."""
    lines: list[Line] = []

    def make(kind: Any, *arguments: Any, **options: Any) -> Any:
        lines.append(kind(*arguments, **options))
        return lines[-1]

    yield make
    for line in lines:
        await line.close()


Connect = Callable[[Stage], Awaitable[Line]]


@pytest.fixture(params=[Socket, Widget], ids=["socket", "widget"])
def connect(request: pytest.FixtureRequest, opened: Any) -> Connect:
    """Opens a line that was greeted, over each transport."""

    async def make(stage: Stage) -> Line:
        line: Line = opened(request.param, stage.conversation)
        await line.next("session")
        return line

    return make


async def asking(stages: Stages) -> Stage:
    """Two calls wait for a decision."""
    asked = calls(call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"))
    stage = await stages(ScriptedModel([asked, say("Done."), say("Bye.")]))
    await stage.asking(2)
    return stage


@pytest.mark.parametrize("kind", [Socket, Widget])
async def test_the_session_comes_first_and_the_events_after_it(stages: Stages, opened: Any, kind: Any) -> None:
    stage = await asking(stages)
    last = stage.conversation.last_seq
    line = opened(kind, stage.conversation)
    session = await line.next()
    assert (session["type"], session["protocol"], session["last_seq"]) == ("session", 1, last)
    assert [one["tool_call_id"] for one in session["pending"]] == ["a", "b"]
    assert [tool["name"] for tool in session["tools"]] == ["run_python", "look"]
    line.say({"type": "resume", "last_seq": last})
    line.say({"type": "approval_response", "approval_id": session["pending"][0]["approval_id"], "approved": False})
    assert (await line.next("approval_response"))["tool_call_id"] == "a"


async def test_a_client_gets_what_it_missed_once_and_in_order_or_a_snapshot_where_that_is_too_much(
    stages: Stages, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await asking(stages)
    last = stage.conversation.last_seq
    monkeypatch.setattr(sessions, "REPLAYED_EVENTS", last - 2)
    line = await connect(stage)
    assert (await line.answer("resume", last_seq=last))["type"] == "ack"
    line.say({"type": "resume", "last_seq": 2})
    assert await line.seqs(last - 2) == list(range(3, last + 1))
    session = await line.answer("resume", last_seq=1)
    assert (session["type"], session["last_seq"]) == ("session", last)
    await stage.start("And then?")
    assert await line.seqs(1) == [last + 1]


async def test_each_command_that_has_an_id_gets_one_reply_that_names_it(stages: Stages, connect: Connect) -> None:
    stage = await asking(stages)
    first, second = await stage.requests(2)
    line = await connect(stage)
    said: list[Frame] = [
        {"type": "ping", "id": "ping"},
        {"type": "shown", "id": "shown", "run_id": first.run_id, "shown": True},
        {"type": "approval_response", "id": "decision", "approval_id": first.approval_id, "approved": False},
        {"type": "approval_response", "id": "again", "approval_id": first.approval_id, "approved": True},
        {"type": "tool_cancel", "id": "cancel", "tool_call_id": second.tool_call_id},
        {"type": "cancel", "id": "nobody", "run_id": "nowhere"},
        {"type": "message", "id": "no content"},
        {"type": "teleport", "id": "of a later version"},
        {"type": "ping", "id": "end"},
    ]
    for command in said:
        line.say(command)
    assert [(one["command_id"], one["type"], one.get("code")) for one in await line.replies("end")] == [
        ("ping", "pong", None),
        ("shown", "ack", None),
        ("decision", "ack", None),
        ("again", "error", "CONFLICT"),
        ("cancel", "ack", None),
        ("nobody", "error", "INVALID_FORMAT"),
        ("no content", "error", "INVALID_FORMAT"),
        ("end", "pong", None),
    ]


ERRORS: list[tuple[Exception, str, int]] = [
    (errors.UnknownApproval("x"), "INVALID_FORMAT", 404),
    (errors.AlreadyDecided("x", {"tool_call_id": "a"}), "CONFLICT", 409),
    (errors.KernelGone("x"), "KERNEL_DIED", 409),
    (errors.LogUnavailable("x"), "INTERNAL_ERROR", 503),
    (errors.NoModelError(), "LLM_ERROR", 400),
    (RuntimeError("a secret"), "INTERNAL_ERROR", 500),
]


@pytest.mark.parametrize(("error", "code", "status"), ERRORS, ids=lambda value: type(value).__name__)
def test_an_error_has_one_code_and_one_status(error: Exception, code: str, status: int) -> None:
    reply = reply_for(error)
    assert (reply.code, reply.status) == (code, status)
    assert "a secret" not in reply.message


async def test_a_frame_that_is_no_command_is_refused_in_words(stages: Stages, opened: Any) -> None:
    line = opened(Socket, (await asking(stages)).conversation)
    await line.next("session")
    texts = ["{not json", "[1]", '"ping"', b"\xff\xfe", '{"type": "ping", "type": "ping"}', "[" * 100_000]
    odd = [{"type": "ping", "id": "\ud800"}, {"type": "ping", "id": ["a"]}]
    long = {"type": "message", "content": "x" * MAX_FRAME_BYTES}
    for frame in [*texts, *map(json.dumps, [*odd, long])]:
        line.say(frame)
        assert (await line.next("error"))["code"] == "INVALID_FORMAT", frame[:40]
    assert (await line.answer("ping"))["type"] == "pong"


async def test_who_may_only_look_gets_everything_and_does_nothing(stages: Stages, opened: Any) -> None:
    async def may(right: Right) -> bool:
        return right == "read"

    stage = await asking(stages)
    [asked] = await stage.requests(1)
    line = opened(Socket, stage.conversation, may=may)
    await line.next("session")
    approval = {"approval_id": asked.approval_id, "approved": True}
    assert (await line.answer("message", content="Delete everything."))["code"] == "ACCESS_DENIED"
    assert (await line.answer("approval_response", **approval))["code"] == "ACCESS_DENIED"
    assert (await line.answer("cancel", run_id=asked.run_id))["code"] == "ACCESS_DENIED"
    assert (await line.answer("shown", run_id="r", shown=True))["type"] == "ack"
    assert (await line.answer("resume", last_seq=0))["type"] == "ack"
    assert await line.seqs(1) == [1]
    assert stage.executor.ran == []


async def test_each_page_that_comes_to_a_shared_line_is_greeted_once_and_by_name(stages: Stages, opened: Any) -> None:
    stage = await asking(stages)
    last = stage.conversation.last_seq
    line = opened(Widget, stage.conversation, begins=False)
    for page in ("first", "second"):
        for _ in range(3):  # a page asks again until it hears something
            line.say({"type": "resume", "id": page, "last_seq": 0})
        session = await line.next()
        assert (session["type"], session["command_id"]) == ("session", page)
        heard = [await line.next() for _ in range(last + 2)]
        assert [frame["seq"] for frame in heard if frame["type"] != "ack"] == list(range(1, last + 1))
        assert [frame["command_id"] for frame in heard if frame["type"] == "ack"] == [page, page]


async def test_the_log_names_the_person_of_the_session(stages: Stages, opened: Any) -> None:
    stage = await asking(stages)
    [asked] = await stage.requests(1)
    line = opened(Socket, stage.conversation, person="ana")
    await line.answer("approval_response", approval_id=asked.approval_id, approved=False)
    [decided] = await stage.until(lambda: stage.of(ApprovalResponseEvent))
    assert decided.decided_by == "ana"
