"""A log of another schema is refused with what to do, by whoever opens it, and stays as it was."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import jupyter_core.paths
import pytest

from agent_kernel import cli
from agent_kernel.errors import OtherSchema
from agent_kernel.log.store import Log
from agent_kernel.log.tables import SCHEMA

EARLIER = "is from before Agent Kernel's first release"


@pytest.fixture
def old_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The server's log, of an earlier version. It must be as it was at the end, and nothing else beside it."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    path = Path(jupyter_core.paths.jupyter_data_dir()) / "agent-kernel" / "agent-kernel.sqlite"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as sql:
        sql.executescript("CREATE TABLE audit (number INTEGER PRIMARY KEY); INSERT INTO audit VALUES (1);")
    set_schema(path, 15)
    before = path.read_bytes()
    yield path
    assert path.read_bytes() == before
    assert [*path.parent.iterdir()] == [path]


def set_schema(path: Path, number: int) -> None:
    with closing(sqlite3.connect(path)) as sql:
        sql.execute(f"PRAGMA user_version = {number}")


async def test_it_is_refused_with_its_path_and_what_to_do(old_log: Path) -> None:
    with pytest.raises(OtherSchema, match=EARLIER) as refused:
        await Log.open(old_log)
    assert str(old_log) in str(refused.value)
    assert "Move it away with the files beside it (agent-kernel.sqlite*): a new log starts." in str(refused.value)


@pytest.mark.parametrize(("number", "words"), [(SCHEMA - 1, EARLIER), (SCHEMA + 1, "newer Agent Kernel")])
async def test_no_other_schema_is_taken(tmp_path: Path, number: int, words: str) -> None:
    set_schema(tmp_path / "log.sqlite", number)
    with pytest.raises(OtherSchema, match=words):
        await Log.open(tmp_path / "log.sqlite")


@pytest.mark.parametrize("command", ["audit --check", "export last"])
def test_the_command_line_says_so_in_one_sentence(
    old_log: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*command.split(), "--log", str(old_log)]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count(EARLIER), "Traceback" in said.err) == ("", 1, False)
