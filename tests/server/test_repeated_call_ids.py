"""Several servers count a model's call ids from 0 in each conversation. A server takes no call for another's, and
neither does a kernel that several conversations share."""

from pathlib import Path
from typing import Any

import pytest

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.server.client import Api, Kernel, OpenChannel

pytestmark = pytest.mark.kernel


def by_prompt(model: FakeOpenAI, turns: dict[str, ModelTurn], times: int) -> None:
    """Each conversation's model asks for its own calls, then ends."""

    def answer(body: dict[str, Any]) -> ModelTurn:
        if body["messages"][-1]["role"] == "tool":
            return say("Done.")
        prompt = next(message["content"] for message in body["messages"] if message["role"] == "user")
        return next(turn for word, turn in turns.items() if word in prompt)

    model.add(*[answer] * times)


def printing(word: str, call_id: str = "call_0") -> ModelTurn:
    return call("run_python", call_id=call_id, code=f"print({word!r})")


async def test_cancelling_one_interrupts_no_other(
    api: Api, kernel: Kernel, model: FakeOpenAI, client: OpenChannel, tmp_path: Path
) -> None:
    """The first one's call runs; the second one's, of the same id, waits behind it and is cancelled."""
    gate = tmp_path / "gate"
    wait = f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    code = f"import os, time\nprint('in', flush=True)\n{wait}\nprint('out')"
    waits = call("run_python", call_id="call_0", code=code)
    by_prompt(model, {"first": waits, "second": printing("second")}, times=4)
    pages = {}
    for word in ("first", "second"):
        pages[word] = await client(await api.begin(kernel, word))
        asked = await pages[word].until("approval_request")
        await pages[word].send({"type": "approval_response", "approval_id": asked["approval_id"], "approved": True})
        await pages[word].until("tool_output" if word == "first" else "tool_start")
    await pages["second"].send({"type": "tool_cancel", "tool_call_id": "call_0"})
    assert (await pages["second"].until("tool_complete"))["state"] == "cancelled"
    gate.touch()
    ended = await pages["first"].until("tool_complete")
    assert (ended["state"], ended["tool_result"]) == ("success", "in\nout")
    for page in pages.values():
        await page.until("complete")


async def test_each_takes_back_the_file_of_its_own_call(
    api: Api, kernel: Kernel, model: FakeOpenAI, client: OpenChannel, tmp_path: Path
) -> None:
    paths = {word: tmp_path / f"{word}.md" for word in ("first", "second")}
    turns = {
        word: calls(
            call("write_file", call_id="call_0", path=str(path), content="new"),
            call("run_python", call_id="call_1", code="1"),
        )
        for word, path in paths.items()
    }
    by_prompt(model, turns, times=2)
    pages = {}
    for word, path in paths.items():
        path.write_text("old")
        page = pages[word] = await client(await api.begin(kernel, word))
        asked = {one["tool_call_id"]: one for one in [await page.until("approval_request") for _ in "12"]}
        await page.send({"type": "approval_response", "approval_id": asked["call_0"]["approval_id"], "approved": True})
        assert (await page.until("tool_complete"))["undo"]
    assert [path.read_text() for path in paths.values()] == ["new", "new"]
    for word, left in (("first", ["old", "new"]), ("second", ["old", "old"])):
        await pages[word].send({"type": "tool_undo", "tool_call_id": "call_0"})
        await pages[word].until("tool_undone")
        assert [path.read_text() for path in paths.values()] == left
