"""`benchmarks/dabench`: loading, grading, and whole runs in real kernels on a small data set of our own."""

import hashlib
import shutil
from pathlib import Path

import nbformat
import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from benchmarks.dabench.__main__ import main
from benchmarks.dabench.dataset import COMMIT, TABLES, DabenchError, digests, fetch, load
from benchmarks.dabench.report import NO_MODEL, Scores, grade, read_answers, score
from benchmarks.dabench.scripted import ANSWERS, read_code, read_disputed

pytestmark = pytest.mark.soak
OWN = Path(__file__).with_name("dabench")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A copy of the small data set."""
    return shutil.copytree(OWN, tmp_path / "data")


@pytest.mark.kernel
def test_right_answers_score_fully_and_a_changed_table_changes_the_score(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results"
    command = ["run", "--scripted", str(data / "answers"), "--data", str(data), "--output", str(folder)]
    assert main([*command, "-j", "3"]) == 0
    report = (folder / "report.md").read_text("utf-8")
    assert report.startswith(f"# InfiAgent-DABench: {NO_MODEL}\n")
    assert "| Questions with every answer right (ABQ) | 100.00% |" in report
    assert "| Tool calls | 3, 0 denied, 0 failed |" in report
    assert "Cost" not in report, "no model was paid"
    notebook = nbformat.read(folder / "notebooks" / "3" / "question.ipynb", as_version=4)
    assert "statistics.correlation" in str(notebook.cells[-1].outputs), "the record in the notebook has the code"

    table = data / TABLES / "harvest.csv"
    table.write_text(table.read_text().replace("North,3.5,21.7", "North,3.5,11.7"))
    capsys.readouterr()
    assert main([*command, "-j", "2"]) == 1
    assert capsys.readouterr().out.count("started ") == 2, "the question about the other table keeps its outcome"
    report = (folder / "report.md").read_text("utf-8")
    assert "| Questions with every answer right (ABQ) | 66.67% |" in report
    assert "| 1 | mean_tonnes | `18.34` | `16.34` |  |" in report
    assert "not explained: 1." in report


@pytest.mark.kernel
def test_a_model_is_asked_through_its_service_and_named_at_its_score(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results"
    turns = [call("run_python", code="open('harvest.csv').read()"), say("@mean_tonnes[18.3]", usage=(200, 10))]
    with FakeOpenAI(turns) as service:
        for name, value in service.environment().items():
            monkeypatch.setenv(name, value)
        options = ["--data", str(data), "--output", str(folder), "--only", "1", "--approve", "none"]
        assert main(["run", "--model", "openai/fake", *options]) == 0
        asked = str(service.requests[0].body["messages"])
    assert "What is the mean harvest of a field?" in asked
    assert "18.34" not in asked
    report = (folder / "report.md").read_text("utf-8")
    assert report.startswith("# InfiAgent-DABench: openai/fake\n")
    assert "(ABQ) | 0.00% |" in report, "the grading rounds nothing"
    assert "| Cost | no price is known |" in report
    assert "| Tool calls | 1, 1 denied, 0 failed |" in report


def test_files_are_fetched_once_and_checked_and_a_missing_one_is_named(data: Path, tmp_path: Path) -> None:
    name, content = f"data/{TABLES}/a table.csv", b"one,two\n1,2\n"
    there = tmp_path / "upstream" / "examples" / "DA-Agent" / name
    there.parent.mkdir(parents=True)
    there.write_bytes(content)
    expected = {name: hashlib.sha256(content).hexdigest()}
    base, target = (tmp_path / "upstream").as_uri(), tmp_path / "target"
    with pytest.raises(DabenchError, match=COMMIT[:10]):
        fetch(target, {name: "0" * 64}, base)
    assert not target.exists()
    assert [fetch(target, expected, base), fetch(target, expected, base)] == [1, 0]
    assert (target / TABLES / "a table.csv").read_bytes() == content
    assert len([one for one in digests() if one.startswith(f"data/{TABLES}/")]) == 52
    (data / TABLES / "harvest.csv").unlink()
    with pytest.raises(DabenchError, match=r"lacks harvest\.csv"):
        load(data)


def test_answers_are_read_from_a_message_and_graded_within_the_tolerance() -> None:
    said = "So @mean[1.5], @mean[2.5e0] and\n@who[Ann, Bo] @list[[1, 2]] @no[a\nb] @empty[] @is[Yes]"
    read = {"mean": "2.5e0", "who": "Ann, Bo", "list": "[1, 2", "empty": "", "is": "Yes"}
    assert read_answers(said) == read
    labels = {"mean": "2.50", "other": "1", "who": "Ann,Bo", "is": "yes"}
    assert grade(said, labels) == {"mean": True, "other": False, "who": False, "is": False}
    graded = [{"a": True, "b": True}, {"a": True, "b": False, "c": False, "d": False}, {"a": False}]
    assert score(graded) == Scores(by_question=0.3333, proportional=0.4167, by_answer=0.4286)


def test_every_answer_is_a_program_and_every_dispute_is_about_one() -> None:
    codes = read_code(ANSWERS)
    assert len(codes) == 257
    for number, code in codes.items():
        compile(code, f"question {number}", "exec")
        assert not ("labels" in code and "jsonl" in code), "it does not read its label"
    assert set(read_disputed()) <= set(codes)
