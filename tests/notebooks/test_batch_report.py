"""`agent-kernel run --once` and `agent-kernel report`: what has begun is run once, whatever dies on the way."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import orjson
import pytest

from agent_kernel import cli
from agent_kernel.log.audit import NO_ENTRY, append
from agent_kernel.log.store import Log
from agent_kernel.notebook.batch.job import AgentRun, CellResult, Job, NotebookResult
from agent_kernel.notebook.batch.result_file import ResultFile, begun
from tests.notebooks.headless import SETUP, write_notebook
from tests.programs import wait_until

SECONDS = 120.0
HANGS = """code = '''
import time
open("ran", "a").write("x")
while True:
    time.sleep(0.1)
'''
run = agent(call("run_python", code=code), say("Done."), policy="allow").run("Wait")"""


def job(logs: Path, name: str = "a", *, parameters: str | None = None, once: bool = True, again: bool = False) -> Job:
    path = Path(f"{name}.ipynb")
    return Job(path, path, logs / f"{name}.log", parameters, {}, None, False, once, again)


def begin(one: Job, **ends: Any) -> NotebookResult | None:
    """Begin a notebook, and end it so; without that, as a command does that dies before."""
    assert one.log is not None
    with ResultFile(one, one.log) as file:
        begins = begun(one)
        earlier = file.begin(begins)
        if ends:
            assert earlier is None
            file.end(begins.model_copy(update=ends))
    return earlier


def end(one: Job, **values: Any) -> None:
    begin(one, **{"status": "passed"} | values)


def report(logs: Path, *options: object) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status, and what the report says of each notebook."""
    status = cli.main(["report", str(logs), "--json", str(logs / "report.json"), *map(str, options)])
    said = orjson.loads((logs / "report.json").read_bytes())
    return status, {one["name"]: one for one in said["notebooks"]}


def test_what_passed_is_not_run_again_and_its_result_counts(tmp_path: Path) -> None:
    runs = (AgentRun("run_1", "Sum", "complete", 2, 1),)
    end(job(tmp_path), cells=(CellResult(1, "passed", 0.5),), runs=runs, seconds=2.0)
    for again in (False, True):
        earlier = begin(job(tmp_path, again=again))
        assert earlier is not None
        assert (earlier.status, earlier.runs, earlier.seconds, earlier.earlier) == ("passed", runs, 2.0, True)
    assert begin(job(tmp_path, once=False)) is None


@pytest.mark.parametrize(
    ("status", "counts_as"), [("failed", "failed"), ("stopped", "stopped"), (None, "unknown"), ("cut off", "unknown")]
)
def test_what_did_not_pass_is_run_again_only_if_that_is_said(
    tmp_path: Path, status: str | None, counts_as: str
) -> None:
    assert begin(job(tmp_path), **({"status": status, "error": "It was so."} if status else {})) is None
    if status == "cut off":
        path = tmp_path / "a.result.json"
        path.write_bytes(path.read_bytes()[:40])
        ended, said = report(tmp_path)
        assert (ended, said["a"]["status"], "can't be read" in said["a"]["error"]) == (1, "unknown", True)
    earlier = begin(job(tmp_path))
    assert earlier is not None
    assert (earlier.status, earlier.notebook, earlier.earlier) == (counts_as, "a.ipynb", True)
    assert begin(job(tmp_path, again=True)) is None


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="kills a process as POSIX does")
def test_a_notebook_whose_command_is_killed_is_told_from_one_that_runs(tmp_path: Path) -> None:
    write_notebook(tmp_path / "a.ipynb", SETUP, HANGS)
    command = [str(Path(sys.executable).with_name("agent-kernel")), "run", "a.ipynb", "--logs", "logs", "--once"]
    process = subprocess.Popen(command, cwd=tmp_path)
    wait_until(lambda: (tmp_path / "ran").exists() or process.poll() is not None, "the call to run", SECONDS)
    status, said = report(tmp_path / "logs")
    assert (status, said["a"]["status"]) == (1, "running")
    process.send_signal(signal.SIGKILL)
    process.wait()
    status, said = report(tmp_path / "logs", "--junit", tmp_path / "report.xml")
    assert (status, said["a"]["status"]) == (1, "unknown")
    assert "What was under way: run_python." in said["a"]["error"]
    assert said["a"]["audit_entries"] == 1
    assert ET.parse(tmp_path / "report.xml").getroot().get("errors") == "1"

    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "UNKNOWN a.ipynb" in refused.stdout
    assert (tmp_path / "ran").read_text() == "x"


async def write_trail(path: Path, *seconds: int) -> None:
    log = await Log.open(path)
    for second in seconds:
        entry = {"at": f"2026-11-23T10:00:0{second}.000Z", "rule": "möglich"}
        await log.write(lambda t, entry=entry: append(t.sql, "rule", entry))
    await log.aclose()


async def test_trails_are_merged_by_time_and_each_can_still_be_checked(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for name in ("a", "sub/b"):
        end(job(logs, name))
    await write_trail(logs / "a.sqlite", 1, 4)
    await write_trail(logs / "sub/b.sqlite", 2, 0, 9)  # the second time is earlier, as where a clock was set back
    status, said = report(logs, "--audit", tmp_path / "audit.jsonl")
    lines = [orjson.loads(line) for line in (tmp_path / "audit.jsonl").read_bytes().splitlines()]
    assert status == 0
    order = [f"{line['notebook']} {line['number']}" for line in lines]
    assert order == ["a 1", "sub/b 1", "sub/b 2", "a 2", "sub/b 3"]
    for name in ("a", "sub/b"):
        last = NO_ENTRY
        for line in lines:
            if line["notebook"] == name:
                assert line["previous"] == last
                entry = {field: value for field, value in line.items() if field != "notebook"}
                last = hashlib.sha256(orjson.dumps(entry, option=orjson.OPT_SORT_KEYS)).hexdigest()
        assert said[name]["audit_hash"] == last


async def test_a_log_that_was_lost_or_damaged_fails_the_report(tmp_path: Path) -> None:
    for name in ("lost", "damaged", "whole"):
        end(job(tmp_path, name))
        await write_trail(tmp_path / f"{name}.sqlite", 1)
    (tmp_path / "lost.sqlite").unlink()
    (tmp_path / "damaged.sqlite").write_bytes(b"no log" * 1000)
    status, said = report(tmp_path, "--audit", tmp_path / "audit.jsonl")
    assert status == 1
    assert "lost" in said["lost"]["audit_fault"]
    assert "can't be read" in said["damaged"]["audit_fault"]
    assert said["whole"]["audit_fault"] == ""
    assert len((tmp_path / "audit.jsonl").read_bytes().splitlines()) == 1


def test_what_was_expected_and_is_not_there_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    end(job(tmp_path), cells=(CellResult(1, "passed"),))
    end(job(tmp_path, "b"), status="failed", cells=(CellResult(1, "failed", 0.1, "Error: <a|b>\nmore"),))
    (tmp_path / "names").write_text("a\nb\n\nc\n")
    status, said = report(tmp_path, "--expect", tmp_path / "names")
    assert (status, [one["status"] for one in said.values()]) == (1, ["passed", "failed", "not_begun"])
    printed = capsys.readouterr().out
    assert "FAILED  b  (1 of 1 cell, 0.0 s)\n          Cell 1: Error: <a|b>\n          more\n" in printed
    assert "3 notebooks: 1 passed, 1 failed, 1 not begun; 0 audit entries, each trail is whole" in printed
