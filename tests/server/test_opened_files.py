"""Files that a kernel of the server opens: the ones that were judged, while another process changes links."""

from pathlib import Path

import pytest

from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.flipping import flipped
from tests.server.client import Api, Kernel

READS = 40


@pytest.mark.kernel
async def test_no_unasked_read_leaves_the_folder_while_a_folder_in_it_is_flipped(
    api: Api, kernel: Kernel, model: FakeOpenAI, tmp_path: Path
) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    for place, text in ((work / "data", "inside\n"), (outside, "secret\n")):
        place.mkdir(parents=True)
        (place / "x.csv").write_text(text)
    await kernel.text(f"import os; os.chdir({str(work)!r})")
    for turn in range(5):  # each asks in other words: reads that all found the same would be stopped as a repetition
        model.add(calls(*[call("read_file", path=f"{'./' * turn}data/x.csv") for _ in range(READS // 5)]))
    model.add(say("Done."))
    with flipped(work / "data", outside):
        # What is not allowed unasked is denied in the mode plan.
        view = await api.ended(await api.begin(kernel, policy="plan"))
    states = [one["state"] for one in view["tool_calls"]]
    assert len(states) == READS
    assert set(states) <= {"success", "denied", "error"}
    assert [one["result"] for one in view["tool_calls"] if "secret" in one["result"]] == []
