"""Odd JSON in bodies, frames, addresses and headers is refused in words, and is never a fault of the server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent_kernel.protocol.commands import COMMAND_TYPES
from agent_kernel.testing import FakeOpenAI, call
from agent_kernel.testing.wire.reply import Reply
from tests.server.client import Api, Kernel, OpenChannel
from tests.waiting import until

DEEP = 20_000
ODD: dict[str, bytes] = {
    "half an emoji": rb'"\ud83d"',
    "no UTF-8": b'"\xff\xfe"',
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "as deep as can just be read": b'{"a":' * 400 + b"1" + b"}" * 400,
    "a long number": b"9" * 5_000,
    "a large number": b"1e999",
    "no number": b"NaN",
    "a name twice": b'{"a": 1, "a": 2}',
    "a null character": rb'"\u0000/\u0000"',
    "null": b"null",
    "an empty object": b"{}",
}
REFUSED = {
    *("half an emoji", "no UTF-8", "deep lists", "a long number", "a large number", "no number", "a name twice"),
}
"""What is no JSON that can be kept, wherever it stands."""
PLACE = "the odd value"

DECISION = {"approved": True, "edited_input": {"code": "1"}, "scope": "once", "digest": "x"}
DECISION |= {"reason": None, "rule": None}
LIMITS = {"tokens": 1, "usd": 1.0, "tool_calls": 1, "seconds": 1.0, "steps": 1}
BUDGET = {"pause_id": "p", "add": LIMITS, "without_usd": False}
PART = {"type": "text", "text": "Hi", "state": "done", "toolCallId": "c", "output": 1, "errorText": "e"}
PART |= {"approval": {"id": "a", "approved": True, "reason": "r"}, "url": "u", "mediaType": "m", "preliminary": False}
CHAT = {"id": "c", "messages": [{"id": "m", "role": "user", "parts": [PART]}], "trigger": "submit-message"}
CHAT |= {"kernel_id": "k", "notebook_path": "n.ipynb", "model": "m", "policy": "ask", "effort": "low", "messageId": "m"}
CHAT |= {"tools": {"t": {"description": "d", "parameters": {"type": "object"}}}}
BODIES: dict[tuple[str, ...], dict[str, Any]] = {
    ("conversations",): {"kernel_id": "k", "model": "m"},
    ("conversations", "ID", "runs"): {"content": "Hi", "watched": False, "effort": "low"},
    ("conversations", "ID", "policy"): {"mode": "ask"},
    ("conversations", "ID", "runs", "RUN", "budget"): BUDGET,
    ("conversations", "ID", "runs", "RUN", "retry"): {},
    ("ai-sdk", "chat"): CHAT,
    ("approvals", "CALL"): DECISION,
    ("approvals", "CALL", "outcome"): {"answer": "continue"},
    ("approvals", "CALL", "result"): {"output": "x"},
    ("approvals", "CALL", "cancel"): {},
    ("approvals", "CALL", "undo"): {},
}


def with_odd(value: Any, odd: bytes) -> Iterator[bytes]:
    """The JSON of a value, with each of its parts replaced in turn."""
    yield odd
    yield from (json.dumps(one).encode().replace(json.dumps(PLACE).encode(), odd) for one in _replaced(value))


def _replaced(value: Any) -> Iterator[Any]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inner:
        for replaced in (PLACE, *_replaced(part)):
            copy = value.copy()
            copy[name] = replaced
            yield copy
    if isinstance(value, dict):
        yield value | {PLACE: PLACE}


@pytest.mark.kernel
@pytest.mark.parametrize("path", BODIES, ids="/".join)
async def test_odd_json_in_a_body_is_refused_in_words(
    api: Api, kernel: Kernel, model: FakeOpenAI, path: tuple[str, ...]
) -> None:
    model.add(call("run_python", call_id="c", code="1"), Reply(hang_after=0))
    conversation_id = await api.new_conversation(kernel_id=kernel.kernel_id)
    run_id = await api.start_run(conversation_id)
    waiting = await api.next_approval()
    names = {"ID": conversation_id, "RUN": run_id, "CALL": waiting["approval_id"]}
    bad = []
    for name, odd in ODD.items():
        for body in with_odd(BODIES[path], odd):
            status, answer = await api("POST", *(names.get(part, part) for part in path), body=body)
            if status >= 500 or (
                name in REFUSED and BODIES[path] and (status, bool(answer.get("message"))) != (400, True)
            ):
                bad.append((name, status, answer, body[:300]))
    await api("POST", "approvals", waiting["approval_id"], body={"approved": True})  # it may be decided already
    await until(lambda: len(model.requests) == 2)
    assert not bad


CALL, RUN = {"tool_call_id": "c"}, {"run_id": "r"}
FRAMES: dict[str, dict[str, Any]] = {
    "message": {"content": "Hi"},
    "approval_response": {"approval_id": "a", **DECISION},
    "tool_result": CALL | {"output": "x"},
    **dict.fromkeys(("tool_cancel", "tool_retry", "tool_continue", "tool_undo"), CALL),
    "rule_remove": {"rule_id": "r"},
    "policy": {"mode": "ask"},
    "instructions": {"file": "AGENTS.md", "off": True},
    "send_away": {},
    "budget": RUN | BUDGET,
    **dict.fromkeys(("run_retry", "try_now", "cancel"), RUN),
    "resume": {"last_seq": 0},
    "shown": RUN | {"shown": True},
    "ping": {},
}


async def test_odd_json_in_a_frame_is_refused_in_words(api: Api, client: OpenChannel, model: FakeOpenAI) -> None:
    model.add(Reply(hang_after=0))  # what is a message starts a run, which says nothing
    assert FRAMES.keys() == COMMAND_TYPES
    page = await client(await api.new_conversation())
    for kind, fields in FRAMES.items():
        for name, odd in ODD.items():
            for frame in with_odd({"type": kind, "id": "i", **fields}, odd):
                await page.send(frame)
                await page.send({"type": "ping", "id": "the ping after it"})
                replies = [await page.next()]
                while replies[-1].get("command_id") != "the ping after it":
                    replies.append(await page.next())
                codes = [reply["code"] for reply in replies if reply["type"] == "error"]
                assert "INTERNAL_ERROR" not in codes, (frame[:300], replies)
                if name in REFUSED:
                    assert codes == ["INVALID_FORMAT"], (frame[:300], replies)
