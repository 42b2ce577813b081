"""Files that a kernel of the server opens: the ones that were judged, while another process changes links."""

from pathlib import Path

import pytest
import pytest_asyncio

from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.flipping import flipped
from tests.server.client import Api, Kernel

READS = 40


@pytest_asyncio.fixture(loop_scope="module")
async def work(fresh_kernel: Kernel, tmp_path: Path) -> Path:
    """The kernel's folder, with a folder of secrets beside it."""
    for place in ("work/data", "outside"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "x.csv").write_text("secret\n" if place == "outside" else "inside\n")
    await fresh_kernel.text(f"import os; os.chdir({str(tmp_path / 'work')!r})")
    return tmp_path / "work"


@pytest.mark.kernel
async def test_no_unasked_read_leaves_the_folder_while_a_folder_in_it_is_flipped(
    api: Api, fresh_kernel: Kernel, model: FakeOpenAI, work: Path
) -> None:
    for turn in range(5):  # each asks in other words: reads that all found the same would be stopped as a repetition
        model.add(calls(*[call("read_file", path=f"{'./' * turn}data/x.csv") for _ in range(READS // 5)]))
    model.add(say("Done."))
    with flipped(work / "data", work.parent / "outside"):
        # What is not allowed unasked is denied in the mode plan.
        view = await api.ended(await api.begin(fresh_kernel, policy="plan"))
    states = [one["state"] for one in view["tool_calls"]]
    assert len(states) == READS
    assert set(states) <= {"success", "denied", "error"}
    assert [one["result"] for one in view["tool_calls"] if "secret" in one["result"]] == []


@pytest.mark.kernel
async def test_a_write_goes_where_the_card_said_or_nowhere(
    api: Api, fresh_kernel: Kernel, model: FakeOpenAI, work: Path
) -> None:
    for _ in range(2):
        model.add(call("write_file", path="data/x.csv", content="written\n"))
    model.add(say("Done."))
    (work / "data" / "x.csv").unlink()
    (work / "data" / "x.csv").symlink_to(work.parent / "outside" / "x.csv")
    conversation_id = await api.begin(fresh_kernel)
    waiting = await api.next_approval()
    (work / "data" / "x.csv").unlink()
    (work / "data" / "x.csv").symlink_to(work.parent / "outside" / "other.csv")
    await api.decide(waiting)
    waiting = await api.next_approval()
    assert not (work.parent / "outside" / "other.csv").exists()
    await api.decide(waiting)
    view = await api.ended(conversation_id)
    assert [one["state"] for one in view["tool_calls"]] == ["denied", "success"]
    assert (work.parent / "outside" / "other.csv").read_text() == "written\n"
    assert (work.parent / "outside" / "x.csv").read_text() == "secret\n"
