"""What `%agent undo` and a run put back after the run, with no server."""

from pathlib import Path

import pytest

from agent_kernel.errors import ToolFailed
from agent_kernel.notebook.execution.backups import KEPT_BYTES, KEPT_IN_ALL, Backups
from agent_kernel.tools.builtin.changes import planned_change
from tests.notebooks.kernel import TestKernel

WRITES = """\
from agent_kernel.testing import ScriptedModel, call, calls, say
import agent_kernel as ak
from pathlib import Path
a, b = Path(FOLDER, "a.md"), Path(FOLDER, "b.md")
a.write_text("old\\n")
turns = [call("write_file", path=str(path), content=text) for path, text in ((a, "1\\n"), (b, "2\\n"), (a, "3\\n"))]
model = ScriptedModel([*turns, say("Written."), say("I see.")])
agent = ak.Agent(model=model, policy="allow")
run = agent.run("Write.")
"""


@pytest.mark.kernel
@pytest.mark.slow
def test_undo_puts_back_what_the_last_run_changed_unless_it_was_changed_since(
    kernel: TestKernel, tmp_path: Path
) -> None:
    kernel.run("%load_ext agent_kernel")
    assert kernel.run("%agent undo").streams().startswith("There is nothing to undo")
    kernel.run(WRITES.replace("FOLDER", repr(str(tmp_path))))
    a, b = tmp_path / "a.md", tmp_path / "b.md"
    b.write_text("mine\n")
    said = (
        f"  {a} (write_file): undone\n  {b} (write_file): The file was changed since. Nothing was put back.\n"
        f"  {a} (write_file): undone\nWhat the kernel computed stays as it is.\n"
    )
    assert kernel.run("%agent undo").streams() == said
    assert (a.read_text(), b.read_text()) == ("old\n", "mine\n")
    kernel.run("%agent redo")
    assert a.read_text() == "3\n"
    assert kernel.value(f"run.undo() == [{str(a)!r}] * 2") == "True"
    assert a.read_text() == "old\n"
    kernel.run("agent.run('And now?')")
    assert kernel.run("%agent undo").streams().startswith("There is nothing to undo: the last run has changed no")
    told = "len([m for m in model.requests[-1].messages if 'I have undone your write_file call' in m['content']])"
    assert kernel.value(told) == "4", "each undo is told"


def wrote(backups: Backups, root: Path, approval_id: str, content: str, path: str = "a.md") -> None:
    change = planned_change(root, "write_file", {"path": path, "content": content})
    assert change is not None
    backups.carry_out(approval_id, change, path)


def states(backups: Backups) -> dict[str, str]:
    return {one.approval_id: one.state for one in backups.changes()}


def test_an_undo_is_undone_unless_the_file_was_changed_since(tmp_path: Path) -> None:
    backups, path = Backups(), tmp_path / "a.md"
    wrote(backups, tmp_path, "first", "1\n")
    backups.undo("first")
    backups.undo("first", redo=True)
    assert (path.read_text(), states(backups)) == ("1\n", {"first": "as_left"})
    backups.undo("first")
    path.write_text("mine\n")
    with pytest.raises(ToolFailed, match="was changed since"):
        backups.undo("first", redo=True)
    assert (path.read_text(), states(backups)) == ("mine\n", {"first": "undone"})


def test_what_is_kept_of_old_files_is_bounded(tmp_path: Path) -> None:
    backups = Backups()
    for number in range(KEPT_IN_ALL // KEPT_BYTES + 3):
        name = f"{number}.txt"
        (tmp_path / name).write_bytes(b"x" * KEPT_BYTES)
        wrote(backups, tmp_path, str(number), "new\n", name)
    assert list(states(backups)) == [str(number) for number in range(3, KEPT_IN_ALL // KEPT_BYTES + 3)]
    with pytest.raises(ToolFailed, match="no longer kept"):
        backups.undo("0")
