"""A client's session, the same over a socket and over the messages of a widget: the whole conversation first, then what
happens, and a reply to each command that names itself."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agent_kernel import errors
from agent_kernel.notebook.hosts.widget_channel import WidgetChannel
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.commands import MAX_FRAME_BYTES
from agent_kernel.protocol.events import ApprovalResponseEvent
from agent_kernel.runtime.clients import session as sessions
from agent_kernel.runtime.clients.dispatch import Right, reply_for
from agent_kernel.runtime.clients.session import ClientGone, ClientSession
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.tools.executor import OutputSink
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stage, Stages

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

    async def answer(self, **command: Any) -> Frame:
        """Send a command with an id; the first frame that names it."""
        command.setdefault("id", "the one")
        self.say(command)
        async with asyncio.timeout(60):
            while (frame := await self.next()).get("command_id") != command["id"]:
                pass
        return frame

    def say(self, command: Frame) -> None:
        raise NotImplementedError

    def begin(self) -> None:
        """What a page does first."""

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
    """The messages of a widget, of which pages come unheard."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.comm = SimpleNamespace(handle_msg=None)
        self.messages: list[int] = []
        self._channel = WidgetChannel(self, asyncio.get_running_loop(), self.tasks)
        self._channel.attach()
        self._channel.open(conversation)

    _handle_msg = None

    def on_command(self, callback: Callable[[Frame], None]) -> None:
        self._callback = callback

    def post_frames(self, frames: list[str]) -> None:
        self.messages.append(len(frames))
        for frame in frames:
            self.came.put_nowait(frame)

    def say(self, command: Frame) -> None:
        self._callback(command)

    def begin(self) -> None:
        self.say({"type": "resume", "last_seq": 0})

    async def close(self) -> None:
        self._channel.close()
        await super().close()


Connect = Callable[[Conversation], Line]


@pytest.fixture(params=[Socket, Widget], ids=["socket", "widget"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Connect]:
    lines: list[Line] = []

    def make(conversation: Conversation) -> Line:
        lines.append(request.param(conversation))
        lines[-1].begin()
        return lines[-1]

    yield make
    for line in lines:
        await line.close()


class UndoExecutor(FunctionExecutor):
    """Calls change files; `undo` does, or raises, what the test says."""

    def __init__(self, undo: Callable[[], Any]) -> None:
        super().__init__(act=self._change)
        self._undo = undo

    def _change(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        return Outcome("success", "written", undo="2026-11-22T08:00:00Z")

    async def undo(self, approval_id: str, *, redo: bool = False) -> None:
        result = self._undo()
        if asyncio.iscoroutine(result):
            await result


def fails(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


async def changed(stages: Stages, undo: Callable[[], Any] = lambda: None) -> Stage:
    """A run has changed a file, by the call `a`."""
    model = ScriptedModel([call("look", call_id="a"), say("Done.")])
    stage: Stage = await stages(model, executor=UndoExecutor(undo))
    await stage.run()
    return stage


async def asking(stages: Stages) -> Stage:
    """Two calls wait for a decision."""
    asked = calls(call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"))
    stage: Stage = await stages(ScriptedModel([asked, say("Done."), say("Bye.")]))
    await stage.start()
    await stage.requests(2)
    return stage


async def test_the_session_comes_first_and_the_events_after_it(stages: Stages, connect: Connect) -> None:
    stage = await asking(stages)
    last = stage.conversation.last_seq
    line = connect(stage.conversation)
    session = await line.next()
    assert (session["type"], session["protocol"], session["last_seq"]) == ("session", 1, last)
    assert [one["tool_call_id"] for one in session["pending"]] == ["a", "b"]
    assert [tool["name"] for tool in session["tools"]] == ["run_python", "look"]
    line.say({"type": "resume", "last_seq": last})
    line.say({"type": "approval_response", "approval_id": session["pending"][0]["approval_id"], "approved": False})
    assert (await line.next("approval_response"))["tool_call_id"] == "a"


async def test_a_client_gets_what_it_missed_once_and_in_order(stages: Stages, connect: Connect) -> None:
    stage = await asking(stages)
    last = stage.conversation.last_seq
    line = connect(stage.conversation)
    await line.next("session")
    assert (await line.answer(type="resume", last_seq=last))["type"] == "ack"
    line.say({"type": "resume", "last_seq": 2})
    assert [(await line.next())["seq"] for _ in range(last - 2)] == list(range(3, last + 1))


async def test_a_client_that_was_away_for_very_long_gets_a_snapshot_instead(
    stages: Stages, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await asking(stages)
    last = stage.conversation.last_seq
    monkeypatch.setattr(sessions, "REPLAYED_EVENTS", last - 2)
    line = connect(stage.conversation)
    await line.next("session")
    line.say({"type": "resume", "last_seq": 2})
    assert [(await line.next())["seq"] for _ in range(last - 2)] == list(range(3, last + 1))
    session = await line.answer(type="resume", last_seq=1)
    assert (session["type"], session["last_seq"]) == ("session", last)
    await stage.start("And then?")
    assert (await line.next())["seq"] == last + 1


async def test_a_client_may_say_where_it_left_off_as_it_comes(stages: Stages, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await asking(stages)
    last = stage.conversation.last_seq
    line = Socket(stage.conversation, left_off=3)
    assert (await line.next())["type"] == "session"
    assert [(await line.next())["seq"] for _ in range(last - 3)] == list(range(4, last + 1))
    monkeypatch.setattr(sessions, "REPLAYED_EVENTS", last - 2)
    far_behind = Socket(stage.conversation, left_off=1)
    assert (await far_behind.next())["last_seq"] == last
    await stage.start("And then?")
    assert (await far_behind.next())["seq"] == last + 1
    for one in (line, far_behind):
        await one.close()


async def test_each_command_that_has_an_id_gets_one_reply_that_names_it(stages: Stages, connect: Connect) -> None:
    stage = await asking(stages)
    first, second = await stage.requests(2)
    line = connect(stage.conversation)
    await line.next("session")
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
    replies = []
    while not replies or replies[-1][0] != "end":
        frame = await line.next()
        if frame.get("command_id") is not None:
            replies.append((frame["command_id"], frame["type"], frame.get("code")))
    assert replies == [
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
    (errors.UnknownRun("x"), "INVALID_FORMAT", 404),
    (errors.UnknownToolCall("x"), "INVALID_FORMAT", 404),
    (errors.UnknownRule("x"), "INVALID_FORMAT", 404),
    (errors.InvalidArguments("x"), "INVALID_FORMAT", 400),
    (errors.AlreadyDecided("x", {"tool_call_id": "a"}), "CONFLICT", 409),
    (errors.UndoRefused("x", "a"), "CONFLICT", 409),
    (errors.DigestMismatch("x"), "CONFLICT", 409),
    (errors.IllegalTransition("x"), "CONFLICT", 409),
    (errors.CarriedOutElsewhere(), "CONFLICT", 409),
    (errors.KernelGone("x"), "KERNEL_DIED", 409),
    (errors.TooManyConversations("x"), "TOOL_ERROR", 429),
    (errors.LogUnavailable("x"), "INTERNAL_ERROR", 503),
    (errors.ConfigurationError("x"), "LLM_ERROR", 400),
    (errors.NoModelError(), "LLM_ERROR", 400),
    (errors.ModelUnavailable("x"), "TOOL_ERROR", 500),
    (errors.ServerSilent("x"), "TOOL_ERROR", 500),
    (RuntimeError("a secret"), "INTERNAL_ERROR", 500),
]


@pytest.mark.parametrize(("error", "code", "status"), ERRORS, ids=lambda value: type(value).__name__)
def test_an_error_has_one_code_and_one_status(error: Exception, code: str, status: int) -> None:
    reply = reply_for(error)
    assert (reply.code, reply.status) == (code, status)
    assert "a secret" not in reply.message


@pytest.mark.parametrize("error", [errors.UndoRefused("x", "a"), errors.KernelGone("x"), RuntimeError("a secret")])
async def test_a_client_is_told_an_error_and_stays(stages: Stages, connect: Connect, error: Exception) -> None:
    stage = await changed(stages, fails(error))
    line = connect(stage.conversation)
    await line.next("session")
    told = await line.answer(type="tool_undo", tool_call_id="a")
    reply = reply_for(error)
    assert (told["code"], told["message"], told["tool_call_id"]) == (reply.code, reply.message, reply.tool_call_id)
    assert (await line.answer(type="ping", id="still here"))["type"] == "pong"


async def test_a_command_is_done_before_the_next_one_of_its_client(stages: Stages, connect: Connect) -> None:
    gate = asyncio.Event()
    stage = await changed(stages, gate.wait)
    line, other = connect(stage.conversation), connect(stage.conversation)
    for one in (line, other):
        await one.next("session")
    line.say({"type": "tool_undo", "id": "slow", "tool_call_id": "a"})
    for number in range(20):
        line.say({"type": "ping", "id": str(number)})
    assert (await other.answer(type="ping"))["type"] == "pong"  # another client does not wait
    gate.set()
    named = []
    while len(named) < 21:
        if (name := (await line.next()).get("command_id")) is not None:
            named.append(name)
    assert named == ["slow", *map(str, range(20))]


async def test_a_page_that_floods_is_told_what_was_not_done(stages: Stages, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket is read no faster than its commands are done; what comes over a widget has been read already."""
    monkeypatch.setattr(sessions, "WAITING_FRAMES", 3)
    gate = asyncio.Event()
    stage = await changed(stages, gate.wait)
    line = Widget(stage.conversation)
    line.begin()
    await line.next("session")
    line.say({"type": "tool_undo", "id": "slow", "tool_call_id": "a"})
    for number in range(5):
        line.say({"type": "ping", "id": str(number)})
    refused = [await line.next("error") for _ in range(3)]
    assert [frame["command_id"] for frame in refused] == ["2", "3", "4"]
    assert "3 commands" in refused[0]["message"]
    gate.set()
    assert [(await line.next("pong"))["command_id"] for _ in range(2)] == ["0", "1"]
    await line.close()


@pytest.mark.parametrize(
    "frame",
    [
        "{not json",
        "[1]",
        '"ping"',
        b"\xff\xfe",
        '{"type": "ping", "type": "ping"}',
        "[" * 100_000,
        r'{"type": "ping", "id": "\ud800"}',
        json.dumps({"type": "ping", "id": ["a"]}),
        json.dumps({"type": "message", "content": "x" * MAX_FRAME_BYTES}),
    ],
    ids=["text", "array", "string", "bytes", "twice", "deep", "half", "no id", "too long"],
)
async def test_a_frame_that_is_no_command_is_refused_in_words(stages: Stages, frame: str | bytes) -> None:
    stage = await changed(stages)
    line = Socket(stage.conversation)
    await line.next("session")
    line.say(frame)
    assert (await line.next("error"))["code"] == "INVALID_FORMAT"
    assert (await line.answer(type="ping"))["type"] == "pong"
    await line.close()


async def test_who_may_only_look_gets_everything_and_does_nothing(stages: Stages) -> None:
    async def may(right: Right) -> bool:
        return right == "read"

    stage = await asking(stages)
    [asked] = await stage.requests(1)
    line = Socket(stage.conversation, may=may)
    await line.next("session")
    for command in (
        {"type": "message", "content": "Delete everything."},
        {"type": "approval_response", "approval_id": asked.approval_id, "approved": True},
        {"type": "cancel", "run_id": asked.run_id},
    ):
        assert (await line.answer(**command))["code"] == "ACCESS_DENIED"
    for command in ({"type": "shown", "run_id": "r", "shown": True}, {"type": "resume", "last_seq": 0}):
        assert (await line.answer(**command))["type"] == "ack"
    assert (await line.next())["seq"] == 1
    assert stage.executor.ran == []
    await line.close()


async def test_the_log_names_the_person_of_the_session(stages: Stages) -> None:
    stage = await asking(stages)
    [asked] = await stage.requests(1)
    line = Socket(stage.conversation, person="ana")
    await line.answer(type="approval_response", approval_id=asked.approval_id, approved=False)
    decided = await stage.until(lambda: stage.of(ApprovalResponseEvent))
    assert decided[0].decided_by == "ana"
    await line.close()


async def test_each_page_that_comes_to_a_shared_line_is_greeted_once_and_by_name(stages: Stages) -> None:
    stage = await asking(stages)
    last = stage.conversation.last_seq
    line = Widget(stage.conversation)
    for page in ("first", "second"):
        for _ in range(3):  # a page asks again until it hears something
            line.say({"type": "resume", "id": page, "last_seq": 0})
        session = await line.next()
        assert (session["type"], session["command_id"]) == ("session", page)
        heard = [await line.next() for _ in range(last + 2)]
        assert [frame["seq"] for frame in heard if frame["type"] != "ack"] == list(range(1, last + 1))
        assert [frame["command_id"] for frame in heard if frame["type"] == "ack"] == [page, page]
    await line.close()


async def test_a_client_that_leaves_leaves_nothing_behind(stages: Stages) -> None:
    class Left(Socket):
        async def send(self, frame: bytes) -> None:
            raise ClientGone

    stage = await changed(stages)
    conversation = await stage.runtime.create_conversation()
    line = Left(conversation)
    async with asyncio.timeout(60):
        await line.running
        await line.session.receive(b'{"type": "ping"}')
    assert not conversation.is_watched
    await line.close()


async def test_a_session_ends_with_its_conversation(stages: Stages) -> None:
    stage = await changed(stages)
    line = Socket(stage.conversation)
    await line.answer(type="ping")
    await stage.runtime.delete_conversation(stage.conversation.conversation_id)
    async with asyncio.timeout(60):
        await line.running
    await line.close()
