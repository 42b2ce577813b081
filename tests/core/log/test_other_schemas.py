"""A log of another schema is refused with what to do, by whoever opens it, and stays as it was."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import jupyter_core.paths
import pytest

from agent_kernel import cli
from agent_kernel.errors import OtherSchema
from agent_kernel.log.opening import LOG_VARIABLE
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


@pytest.mark.parametrize(("number", "words"), [(1, EARLIER), (SCHEMA - 1, EARLIER), (SCHEMA + 1, "newer Agent Kernel")])
async def test_no_other_schema_is_taken(tmp_path: Path, number: int, words: str) -> None:
    set_schema(tmp_path / "log.sqlite", number)
    with pytest.raises(OtherSchema, match=words):
        await Log.open(tmp_path / "log.sqlite")


@pytest.mark.parametrize("command", ["audit", "audit --check", "export", "export last", "rules list"])
def test_the_command_line_says_so_in_one_sentence(
    old_log: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*command.split(), "--log", str(old_log)]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count(EARLIER), "Traceback" in said.err) == ("", 1, False)


def test_a_run_in_a_kernel_without_a_server_ends_with_it(old_log: Path) -> None:
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_line_magic('load_ext', 'agent_kernel')\n"
        "shell.run_cell('%%agent --model demo --wait\\nHi')\n"
        "import agent_kernel\n"
        "run = agent_kernel.last_run()\n"
        "print(run.status, run.error.message)"
    )
    environ = os.environ | {LOG_VARIABLE: str(old_log)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=True)
    assert done.stdout.splitlines()[-1].startswith(f"error The log at {old_log} {EARLIER}")
