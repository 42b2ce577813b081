"""A log of another schema is refused with what to do, and stays as it was."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent_kernel.errors import OtherSchema
from agent_kernel.log.store import Log
from agent_kernel.log.tables import SCHEMA


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (SCHEMA - 1, r"is from before .* Move it away with the files beside it \(log.sqlite\*\): a new log starts."),
        (SCHEMA + 1, "A newer Agent Kernel wrote the log .* Update Agent Kernel, or set another data directory."),
    ],
)
async def test_it_is_refused_with_its_path_and_what_to_do(tmp_path: Path, number: int, words: str) -> None:
    path = tmp_path / "log.sqlite"
    with closing(sqlite3.connect(path)) as sql:
        sql.executescript(f"CREATE TABLE audit (number INTEGER PRIMARY KEY); PRAGMA user_version = {number};")
    before = path.read_bytes()
    with pytest.raises(OtherSchema, match=words) as refused:
        await Log.open(path)
    assert str(path) in str(refused.value)
    assert (path.read_bytes(), names_in(tmp_path)) == (before, [path.name])
