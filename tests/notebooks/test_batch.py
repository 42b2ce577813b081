"""`agent-kernel run`: many notebooks, what is written of them, and how it ends."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import nbformat
import pytest

from agent_kernel import cli
from agent_kernel.notebook.batch.commands import as_value, parameters_cell
from agent_kernel.notebook.batch.execute import inject
from agent_kernel.notebook.batch.job import CellResult, NotebookResult, plain
from agent_kernel.notebook.batch.report import in_words, write_junit
from tests.notebooks.headless import SETUP, UNAWAITED, printed, write_notebook
from tests.programs import wait_until

SECONDS = 120.0
NUMBERS = ("tests", "failures", "skipped")
ASKS = """run = agent(call("run_python", code="made = 1"), say("Done.")).run("Make it")
print(run.tool_calls[0].state)"""


@dataclass
class Batch:
    folder: Path
    done: "subprocess.CompletedProcess[str]"

    def output(self, name: str) -> list[str]:
        return printed(self.folder / "done" / name)


def start(folder: Path, *arguments: str, **environ: str) -> "subprocess.Popen[str]":
    command = [Path(sys.executable).with_name("agent-kernel"), "run", *arguments]
    env = {**os.environ, **environ}
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """Notebooks of every fate, run at once."""
    folder = tmp_path_factory.mktemp("batch")
    write_notebook(folder / "good.ipynb", "rows = 1", "print(rows * 2, name)", tags=("parameters",))
    write_notebook(folder / "sub" / "good.ipynb", "print('another of that name')")
    write_notebook(folder / "fails.ipynb", SETUP, UNAWAITED, "print('never')")
    write_notebook(folder / "asks.ipynb", SETUP, ASKS)
    write_notebook(folder / "dies.ipynb", "import os; os.kill(os.getpid(), 9)", "print('never')")
    names = ["good.ipynb", "sub/good.ipynb", "fails.ipynb", "asks.ipynb", "dies.ipynb"]
    options = ["-j", "3", "-p", "rows", "21", "-p", "name", "a b", "--output", "done", "--logs", "logs"]
    process = start(folder, *names, *options, "--junit", "reports/report.xml")
    said, _ = process.communicate(timeout=280)
    return Batch(folder, subprocess.CompletedProcess(process.args, process.returncode, said))


@pytest.mark.kernel
@pytest.mark.slow
def test_each_notebook_is_written_as_far_as_it_came_and_it_is_said_how_it_ended(batch: Batch) -> None:
    """Parameters follow the cell that has their defaults, and what asks is denied."""
    assert batch.output("good.ipynb") == ["", "", "42 a b\n"]
    assert batch.output("sub/good.ipynb")[-1] == "another of that name\n"
    assert batch.output("fails.ipynb")[-2:] == ["RunFailed", ""]
    assert batch.output("asks.ipynb")[-1] == "denied\n"
    assert batch.output("dies.ipynb")[-2:] == ["", ""]
    assert printed(batch.folder / "good.ipynb") == ["from an earlier time"] * 2
    assert batch.done.returncode == 1
    for said in (
        "5 notebooks: 3 passed, 2 failed in ",
        '"Make it": 1 call denied',
        'Cell 3: RunFailed: The agent\'s run "Sum the table" failed: The service is down.',
        "Cell 2: The kernel died.",
    ):
        assert said in batch.done.stdout


@pytest.mark.kernel
@pytest.mark.slow
def test_each_notebook_has_a_log_and_a_suite_in_the_report_and_each_agent_an_audit_trail(
    batch: Batch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = batch.folder / "logs"
    assert "cell 3 failed after" in (logs / "fails.log").read_text()
    assert '"Sum the table": error, 1 call, 0 denied. The service is down.' in (logs / "fails.log").read_text()
    assert cli.main(["audit", "--check", "--log", str(logs / "asks.sqlite")]) == 0
    assert "trail is whole" in capsys.readouterr().out
    assert not (logs / "good.sqlite").exists()
    root = ET.parse(batch.folder / "reports" / "report.xml").getroot()
    numbers = {suite.get("name"): " ".join(suite.get(name, "") for name in NUMBERS) for suite in root}
    assert numbers == {
        "good.ipynb": "3 0 0",
        "sub/good.ipynb": "2 0 0",
        "fails.ipynb": "4 1 1",
        "asks.ipynb": "3 0 0",
        "dies.ipynb": "3 1 1",
    }
    (failure,) = root.iterfind("testsuite[@name='fails.ipynb']/testcase/failure")
    assert failure.get("message", "").startswith("RunFailed: The agent's run")
    assert "run_" in (failure.text or "")


@pytest.mark.kernel
@pytest.mark.slow
def test_calls_that_ask_can_be_approved_and_a_cell_that_takes_too_long_ends_its_notebook(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_notebook(tmp_path / "asks.ipynb", SETUP, ASKS)
    assert cli.main(["run", str(path), "--approve", "all"]) == 0
    assert printed(path)[-1] == "success\n"
    assert "denied" not in capsys.readouterr().out
    path = write_notebook(tmp_path / "slow.ipynb", "print('begun', flush=True)\nimport time; time.sleep(600)")
    assert cli.main(["run", str(path), "--timeout", "3"]) == 1
    assert "Cell 1: The cell did not end within 3 s." in capsys.readouterr().out
    assert printed(path)[0].startswith("begun\n")


def processes_with(marker: str) -> list[str]:
    """The processes that have this in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            found += [path.parent.name] if marker.encode() in path.read_bytes() else []
    return found


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads the environment of processes from /proc")
def test_an_interrupt_stops_all_and_leaves_no_kernel(tmp_path: Path) -> None:
    marker = f"agent-kernel-test-{os.getpid()}-{time.monotonic_ns()}"
    work = 'agent(call("run_shell", command="touch begun; sleep 600"), say("Done."), policy="allow").run("Sleep")'
    folder = tmp_path / "notebooks"  # Landlock opens no folder that has a hidden file, such as the agent's log
    write_notebook(folder / "slow.ipynb", "print('first')", SETUP + work, "print('never')")
    write_notebook(folder / "later.ipynb", "print('never')")
    process = start(folder, "slow.ipynb", "later.ipynb", "--logs", "../logs", TEST_MARKER=marker)
    wait_until(lambda: (folder / "begun").exists() or process.poll() is not None, "the call to begin", SECONDS)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "2 notebooks: 2 stopped" in said
    wait_until(lambda: not processes_with(marker), "the kernels to end", SECONDS)
    assert printed(folder / "slow.ipynb") == ["first\n", "KeyboardInterrupt", ""]
    assert '"Sleep": cancelled' in (tmp_path / "logs" / "slow.log").read_text()
    assert printed(folder / "later.ipynb") == ["from an earlier time"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "There is no notebook"),
        ('{"cells": [', "is no notebook, or was not saved whole"),
    ],
)
def test_nothing_is_run_if_one_file_is_no_notebook(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, said: str
) -> None:
    good, bad = write_notebook(tmp_path / "good.ipynb", "open('ran', 'w')"), tmp_path / "bad.ipynb"
    if content is not None:
        bad.write_text(content)
    for command, status in ((["run", str(good), str(bad)], 2), (["record", str(bad)], 1)):
        assert cli.main(command) == status
        error = capsys.readouterr().err
        assert said in error
        assert "bad.ipynb" in error
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [("True", True), ("None", None), ("12", 12), ("1e3", 1000.0), ("2026-10", "2026-10")],
)
def test_a_parameter_is_what_it_looks_like(text: str, value: object) -> None:
    assert as_value(text) == value
    assert type(as_value(text)) is type(value)


@pytest.mark.parametrize("minor", [4, 5])
def test_parameters_are_quoted_the_last_of_a_name_counts_and_those_of_before_are_replaced(minor: int) -> None:
    source = parameters_cell([("name", 'it\'s "x"\n'), ("top", "inf"), ("name", "b'")])
    assert source == '# Parameters\nname = "b\'"\ntop = float("inf")'
    assert parameters_cell([]) is None
    new = nbformat.v4.new_code_cell
    document = nbformat.v4.new_notebook(cells=[new("rows = 1", metadata={"tags": ["parameters"]}), new("rows")])
    document.nbformat_minor = minor
    for cell in document.cells if minor < 5 else ():
        del cell["id"]
    for rows in ("rows = 2", source):
        inject(document, rows)
    nbformat.validate(document)
    assert [cell.source for cell in document.cells] == ["rows = 1", source, "rows"]


def result(path: Path, error: str) -> NotebookResult:
    cells = (CellResult(1, "failed", 0.5, error), CellResult(2, "not_run"))
    return NotebookResult(notebook=str(path), status="failed", cells=cells, seconds=1.0)


def test_the_report_is_well_formed_whatever_a_notebook_printed(tmp_path: Path) -> None:
    error = plain("Error: \x1b[31m<red> & \x00\x0b\ufffe\ud800]]>\x1b[0m")
    write_junit({'a "<&>.ipynb': result(tmp_path / "a.ipynb", error)}, tmp_path / "report.xml")
    (failure,) = ET.parse(tmp_path / "report.xml").getroot().iterfind(".//failure")
    assert failure.text == "Error: <red> & ����]]>"


def test_the_line_of_a_notebook_says_why_it_failed_without_the_traceback() -> None:
    said = in_words(result(Path("a.ipynb"), "ValueError: no\n---\nTraceback"), "a.ipynb")
    assert said == "FAILED  a.ipynb  (1 of 2 cells, 1.0 s)\n          Cell 1: ValueError: no"


def test_a_schedulers_worker_runs_a_notebook_in_a_thread(tmp_path: Path) -> None:
    write_notebook(tmp_path / "one.ipynb", "print(6 * 7)")
    command = ["run", str(tmp_path / "one.ipynb"), "--output", str(tmp_path / "done.ipynb")]
    with ThreadPoolExecutor(1) as worker:
        assert worker.submit(cli.main, command).result(SECONDS) == 0
    assert printed(tmp_path / "done.ipynb") == ["42\n"]
