"""Whatever a client sends: it is answered or ignored, never a fault of the server, and nothing runs that was not
approved by a frame that says so."""

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.errors import AgentKernelError
from agent_kernel.models.base import ModelTurn
from agent_kernel.protocol.commands import COMMAND_TYPES
from agent_kernel.protocol.events import ApprovalResponseEvent, ErrorEvent
from agent_kernel.runtime.clients.dispatch import InvalidFrame, handle_command, parse_frame, reply_for
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.testing import ScriptedModel, requested, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, stage
from tests.core.runtime.turns.fuzzing import rounds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PLACES = ["approval_id", "tool_call_id", "run_id", "digest"]
"""Stand for what the conversation really has: most guesses of a fuzzer would never get past the first look-up."""
VALUES = st.sampled_from(PLACES) | JSON
FIELDS = {
    "approval_id": VALUES,
    "approved": st.booleans() | VALUES,
    "reason": st.none() | st.text(max_size=5) | JSON,
    "edited_input": st.sampled_from([None, {"code": "2"}, '{"code": "2"}', {}, '{"code": ']) | JSON,
    "scope": st.sampled_from(["once", "conversation", "project", "user", "everyone"]) | JSON,
    "rule": st.sampled_from(["allow run_python", "allow *", "deny *", ""]) | JSON,
    "digest": st.none() | VALUES,
    "tool_call_id": VALUES,
    "run_id": VALUES,
    "rule_id": VALUES,
    "content": st.text(max_size=5) | JSON,
    "output": st.text(max_size=5) | JSON,
    "last_seq": st.integers() | JSON,
    "state": JSON,
    "id": st.text(max_size=70) | JSON,
}
COMMANDS = st.fixed_dictionaries(
    {"type": st.sampled_from(sorted(COMMAND_TYPES)) | st.sampled_from(["session", "tool_start", ""]) | JSON},
    optional=FIELDS,
)
APPROVAL = st.fixed_dictionaries(
    {"type": st.just("approval_response"), "approval_id": st.just("approval_id"), "approved": st.booleans()},
    optional={name: FIELDS[name] for name in ("edited_input", "scope", "rule", "digest", "reason")},
)


NO = {"type": "approval_response", "approved": False}


@given(st.binary(max_size=200) | st.text(max_size=200) | JSON.map(json.dumps) | COMMANDS.map(json.dumps))
@rounds(300, 20_000)
def test_a_frame_is_a_command_or_is_refused_in_words(frame: str | bytes) -> None:
    try:
        command = parse_frame(frame)
    except InvalidFrame as refused:
        assert_short(str(refused))
        ErrorEvent(code="INVALID_FORMAT", message=str(refused), command_id=refused.command_id).model_dump_json()
    else:
        assert command is None or command.type in COMMAND_TYPES


def assert_short(message: str) -> None:
    assert 0 < len(message) < 1000


@given(st.lists(COMMANDS | APPROVAL | APPROVAL, min_size=1, max_size=12))
@rounds(40, 1_000)
def test_no_frames_break_a_conversation_or_run_a_call_unapproved(frames: list[dict[str, Any]]) -> None:
    asyncio.run(_converse(frames))


async def _converse(frames: list[dict[str, Any]]) -> None:
    asked = [requested("run_python", {"code": code}, call_id=f"c{code}") for code in "12"]
    model = ScriptedModel([ModelTurn("", tool_calls=tuple(asked)), *[say("Done.")] * 40])
    set_up = await stage(model, executor=FunctionExecutor())
    try:
        handle, [first, second] = await set_up.asking(2)
        names = {"approval_id": first.approval_id, "tool_call_id": first.tool_call_id, "digest": first.digest}
        names["run_id"] = handle.run_id
        denials = ({**NO, "approval_id": request.approval_id} for request in (first, second))
        for frame in (*frames, *denials):
            named = {key: names.get(value, value) if isinstance(value, str) else value for key, value in frame.items()}
            await _send(named, set_up.conversation)
        async with asyncio.timeout(20):
            await handle.wait()
        view = await set_up.conversation.view()
        approved = {event.tool_call_id for event in set_up.of(ApprovalResponseEvent) if event.approved}
        ran = [call.tool_call_id for call in set_up.executor.ran]
        assert (set(ran) <= approved, len(ran)) == (True, len(set(ran)))
        assert all(call.state not in ("proposed", "awaiting_approval", "executing") for call in view.tool_calls)
        seqs = [event.seq for event in set_up.events]
        assert seqs == list(range(1, len(seqs) + 1))
    finally:
        await set_up.close()


async def _send(frame: dict[str, Any], conversation: Conversation) -> None:
    """As the channel does it."""
    try:
        command = parse_frame(json.dumps(frame))
        if command is not None:
            await handle_command(command, conversation, "ana")
    except InvalidFrame:
        return
    except AgentKernelError as error:
        reply = reply_for(error)
        assert reply.code != "INTERNAL_ERROR"
