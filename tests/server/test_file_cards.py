"""What a card says of a file that a kernel holds; the watchdog of these tests says where the server stood still."""

from pathlib import Path

from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.server.client import Api, Kernel


async def test_a_change_is_undone_after_its_run_while_the_file_is_as_the_call_left_it(
    api: Api, kernel: Kernel, model: FakeOpenAI, tmp_path: Path
) -> None:
    report, notes = tmp_path / "report.md", tmp_path / "notes.md"
    report.write_text("old\n")
    writes = [call("write_file", path=str(path), content="new\n", call_id=path.stem) for path in (report, notes)]
    model.add(calls(*writes), say("Done."))
    conversation_id = await api.begin(kernel)
    for _ in writes:
        await api.decide()
    ended = {one["tool_call_id"]: one["approval_id"] for one in (await api.ended(conversation_id))["tool_calls"]}

    async def states() -> dict[str, str]:
        changes = await api.get("changes", kernel_id=kernel.kernel_id)
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
    assert await api.get("changes", kernel_id="another") == []
