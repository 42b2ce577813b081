"""What a card says of a file that a kernel holds; the watchdog of these tests says where the server stood still."""

import asyncio
import json
from pathlib import Path
from typing import Any

from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.server.client import Api, Kernel


async def asked(api: Api, kernel: Kernel, model: FakeOpenAI, name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    model.add(call(name, **arguments), say("Done."))
    conversation_id = await api.begin(kernel)
    return conversation_id, await api.next_approval()


async def test_a_file_that_is_changed_while_its_card_waits_is_not_written_over(
    api: Api, kernel: Kernel, model: FakeOpenAI, tmp_path: Path
) -> None:
    report = tmp_path / "report.md"
    report.write_text("old\n")
    conversation_id, waiting = await asked(api, kernel, model, "write_file", path=str(report), content="new\n")
    report.write_text("old, and what I wrote meanwhile\n")
    await api.decide(waiting)
    (done,) = (await api.ended(conversation_id))["tool_calls"]
    assert done["state"] == "error"
    assert "was changed after this call was shown to the user. Nothing was written." in done["result"]
    assert report.read_text() == "old, and what I wrote meanwhile\n"


async def test_files_of_any_size_are_compared_while_the_server_and_the_kernel_go_on(
    api: Api, kernel: Kernel, model: FakeOpenAI, tmp_path: Path
) -> None:
    data = tmp_path / "data.txt"
    data.write_text("ab\nba\n" * 10_000)
    conversation_id, waiting = await asked(
        api, kernel, model, "write_file", path=str(data), content="ba\nba\nab\n" * 8_000
    )
    assert len(waiting["preview"]["text"]) < 100_000
    async with asyncio.timeout(60):
        assert json.loads(await kernel.text("print(1)")) == 1
    await api.decide(waiting, approved=False)
    await api.ended(conversation_id)


async def test_a_change_is_undone_after_its_run_while_the_file_is_as_the_call_left_it(
    api: Api, kernel: Kernel, model: FakeOpenAI, tmp_path: Path
) -> None:
    report, notes = tmp_path / "report.md", tmp_path / "notes.md"
    report.write_text("old\n")
    writes = [call("write_file", path=str(path), content="new\n", call_id=path.stem) for path in (report, notes)]
    model.add(calls(*writes), say("Done."), say("I see."))
    conversation_id = await api.begin(kernel)
    for _ in writes:
        await api.decide()
    ended = {one["tool_call_id"]: one["approval_id"] for one in (await api.ended(conversation_id))["tool_calls"]}

    async def states() -> dict[str, str]:
        status, changes = await api("GET", "changes", params={"kernel_id": kernel.kernel_id})
        assert status == 200
        return {Path(change["path"]).stem: change["state"] for change in changes}

    assert await states() == {"report": "as_left", "notes": "as_left"}
    notes.write_text("mine\n")
    assert await states() == {"report": "as_left", "notes": "changed"}
    status, refused = await api("POST", "approvals", ended["notes"], "undo")
    assert (status, refused["message"]) == (409, "The file was changed since. Nothing was put back.")
    status, undone = await api("POST", "approvals", ended["report"], "undo")
    assert (status, undone["undone"]) == (200, True)
    assert (report.read_text(), notes.read_text()) == ("old\n", "mine\n")
    assert await states() == {"report": "undone", "notes": "changed"}
    status, refused = await api("POST", "approvals", ended["report"], "undo")
    assert (status, refused["message"]) == (409, "This change was undone already.")
    await api.start_run(conversation_id, "And now?")
    await api.ended(conversation_id)
    said = [message["content"] for message in model.requests[-1].body["messages"] if message["role"] == "user"]
    assert said[1] == f"I have undone your write_file call: {report} is as it was before."
    _, other = await api("GET", "changes", params={"kernel_id": "another"})
    assert other == []
