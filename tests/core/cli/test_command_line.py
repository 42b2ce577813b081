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


def write_notebook(path: Path, *cells: str) -> Path:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    nbformat.write(notebook, path)
    return path


def sources(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_the_demo_opens_a_copy_with_empty_outputs(tmp_path: Path) -> None:
    copy = prepare_demo(NOTEBOOKS, tmp_path / "demo", {})
    notebook = nbformat.read(copy, as_version=4)
    assert not any(cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    assert sources(copy) == sources(NOTEBOOKS / "quickstart.ipynb")
    for path in (
        *NOTEBOOKS.glob("data/*.*"),
        *NOTEBOOKS.glob("recordings/*.jsonl"),
        *NOTEBOOKS.glob("recordings/*/*.png"),
    ):
        assert (tmp_path / "demo" / path.relative_to(NOTEBOOKS)).read_bytes() == path.read_bytes()


def test_the_demo_keeps_a_recording_that_the_user_made_anew(tmp_path: Path) -> None:
    mine = tmp_path / "recordings" / "plots.jsonl"
    mine.parent.mkdir()
    mine.write_text("mine")
    prepare_demo(NOTEBOOKS, tmp_path, {})
    assert mine.read_text() == "mine"
    assert (tmp_path / "recordings" / "tools.jsonl").is_file()


def test_the_demo_asks_the_users_own_model_where_there_is_one(tmp_path: Path) -> None:
    copy = prepare_demo(NOTEBOOKS, tmp_path, {"OPENAI_API_KEY": "sk-x"})
    assert [source.splitlines()[0] for source in sources(copy) if source.startswith("%%agent")] == ["%%agent"] * 3


def test_the_demo_keeps_what_the_user_changed_in_the_copy(tmp_path: Path) -> None:
    changed = write_notebook(tmp_path / "quickstart.ipynb", "'mine'")
    assert sources(prepare_demo(NOTEBOOKS, tmp_path, {})) == sources(changed) == ["'mine'"]


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
