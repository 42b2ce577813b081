"""What `agent-kernel` does in a terminal."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from agent_kernel import cli
from agent_kernel.demo import prepare_demo

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"


def sources(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_the_demo_opens_a_copy_with_empty_outputs(tmp_path: Path) -> None:
    copy = prepare_demo(NOTEBOOKS, tmp_path / "demo", {})
    notebook = nbformat.read(copy, as_version=4)
    assert not any(cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    assert sources(copy) == sources(NOTEBOOKS / "quickstart.ipynb")
    for pattern in ("data/*.*", "recordings/*.jsonl", "recordings/*/*.png"):
        for path in NOTEBOOKS.glob(pattern):
            assert (tmp_path / "demo" / path.relative_to(NOTEBOOKS)).read_bytes() == path.read_bytes()


def test_an_unknown_option_is_refused_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["doctor", "--loud"])
    assert "--loud" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("mcp", "--print", "codex", "--server", "http://localhost:8888/"), ("rules",)])
def test_a_reader_that_closes_the_pipe_early_is_no_error(command: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code = "import sys; from agent_kernel.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, *command], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, b"Error" in done.stderr) == (0, False), done.stderr
