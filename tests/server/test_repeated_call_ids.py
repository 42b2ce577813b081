"""Several servers count a model's call ids from 0 in each conversation. A kernel that conversations share takes no call
for another's."""

from pathlib import Path
from typing import Any

import pytest

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.server.client import Api, Kernel, OpenChannel


@pytest.mark.kernel
async def test_of_calls_with_one_id_each_has_its_own_cancel_result_and_undo(
    api: Api, kernel: Kernel, model: FakeOpenAI, client: OpenChannel, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    wait = f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    codes = {
        "first": f"import os, time\nprint('in', flush=True)\n{wait}\nprint('out')",
        "second": "print('second')",
    }
    files = {word: tmp_path / f"{word}.md" for word in codes}

    def answer(body: dict[str, Any]) -> ModelTurn:
        if body["messages"][-1]["role"] == "tool":
            return say("Done.")
        prompt = next(one["content"] for one in body["messages"] if one["role"] == "user")
        word = next(word for word in codes if word in prompt)
        written = call("write_file", call_id="call_0", path=str(files[word]), content="new")
        return calls(written, call("run_python", call_id="call_1", code=codes[word]))

    model.add(*[answer] * 4)
    pages, asked = {}, {}
    for word, file in files.items():
        file.write_text("old")
        page = pages[word] = await client(await api.begin(kernel, word))
        requests = [await page.until("approval_request") for _ in "12"]
        asked[word] = {one["tool_call_id"]: one["approval_id"] for one in requests}
        await page.send({"type": "approval_response", "approval_id": asked[word]["call_0"], "approved": True})
        assert (await page.until("tool_complete"))["undo"]
    await pages["second"].send({"type": "tool_undo", "tool_call_id": "call_0"})
    await pages["second"].until("tool_undone")
    assert [file.read_text() for file in files.values()] == ["new", "old"]
    for word, page in pages.items():  # the second one waits behind the first
        await page.send({"type": "approval_response", "approval_id": asked[word]["call_1"], "approved": True})
        await page.until("tool_output" if word == "first" else "tool_start")
    await pages["second"].send({"type": "tool_cancel", "tool_call_id": "call_1"})
    assert (await pages["second"].until("tool_complete"))["state"] == "cancelled"
    gate.touch()
    ended = await pages["first"].until("tool_complete")
    assert (ended["state"], ended["tool_result"]) == ("success", "in\nout")
    for page in pages.values():
        await page.until("complete")
