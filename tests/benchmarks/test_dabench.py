"""`benchmarks/dabench`: loading, grading, reporting, and whole runs in real kernels on a small data set of our own."""

import hashlib
import importlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from benchmarks.dabench.__main__ import main
from benchmarks.dabench.dataset import COMMIT, DATA, LABELS, QUESTIONS, TABLES, DabenchError, digests, fetch, load
from benchmarks.dabench.report import (
    NO_MODEL,
    Graded,
    Report,
    Scores,
    as_json,
    as_markdown,
    grade,
    read_answers,
    score,
)
from benchmarks.dabench.run import Outcome, Settings
from benchmarks.dabench.scripted import ANSWERS, read_code, read_disputed

pytestmark = pytest.mark.soak
OWN = Path(__file__).with_name("dabench")
FETCHED = (DATA / QUESTIONS).is_file()
CONTENT = b"one,two\n1,2\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A copy of the small data set."""
    return shutil.copytree(OWN, tmp_path / "data")


def read_report(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


@pytest.mark.kernel
def test_right_answers_score_fully_and_a_changed_table_changes_the_score(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results"
    command = ["run", "--scripted", "--data", str(data), "--answers", str(data / "answers"), "--output", str(folder)]
    assert main([*command, "-j", "3"]) == 0
    report = read_report(folder)
    assert report["answered_by"] == NO_MODEL
    assert report["scores"] == {"by_question": 1.0, "proportional": 1.0, "by_answer": 1.0}
    assert report["totals"]["calls"] == 3
    assert report["totals"]["by_status"] == {"complete": 3}
    notebook = nbformat.read(folder / "notebooks" / "3" / "question.ipynb", as_version=4)
    assert "statistics.correlation" in str(notebook.cells[-1].outputs), "the record in the notebook has the code"

    table = data / TABLES / "harvest.csv"
    table.write_text(table.read_text().replace("North,3.5,21.7", "North,3.5,11.7"))
    capsys.readouterr()
    assert main([*command, "-j", "2"]) == 1
    assert capsys.readouterr().out.count("started ") == 2, "the question about the other table keeps its outcome"
    report = read_report(folder)
    assert report["scores"] == {"by_question": 0.6667, "proportional": 0.6667, "by_answer": 0.8}
    assert {one["id"]: one["verdict"] for one in report["by_question"]} == {1: "wrong", 2: "right", 3: "right"}
    assert report["by_question"][0]["answers"] == {"mean_tonnes": "16.34"}

    assert main(command) == 1
    assert "started " not in capsys.readouterr().out
    assert read_report(folder)["scores"] == report["scores"]


@pytest.mark.kernel
def test_a_model_is_asked_through_its_service_and_named_at_its_score(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results"
    options = ["--data", str(data), "--output", str(folder), "--only", "1", "--approve", "none"]
    turns = [call("run_python", code="open('harvest.csv').read()"), say("@mean_tonnes[18.3]", usage=(200, 10))]
    with FakeOpenAI(turns) as service:
        for name, value in service.environment().items():
            monkeypatch.setenv(name, value)
        assert main(["run", "--model", "openai/fake", *options]) == 0
        asked = str(service.requests[0].body["messages"])
    assert "What is the mean harvest of a field?" in asked
    assert "18.34" not in asked
    report = read_report(folder)
    assert (report["answered_by"], report["scores"]["by_question"]) == ("openai/fake", 0.0), (
        "the grading rounds nothing"
    )
    assert [report["totals"][name] for name in ("calls", "denied", "cost")] == [1, 1, None]
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    assert markdown.startswith("# InfiAgent-DABench: openai/fake\n")
    assert "| Cost | no price is known |" in markdown
    capsys.readouterr()
    assert main(["run", "--model", "openai/other", *options]) == 2
    assert "model was 'openai/fake'" in capsys.readouterr().err


def test_a_missing_question_table_or_file_is_named(data: Path, tmp_path: Path) -> None:
    assert [question.id for question in load(data, (3, 1)).questions] == [1, 3]
    with pytest.raises(DabenchError, match="no question 5, 9"):
        load(data, (9, 1, 5))
    (data / TABLES / "harvest.csv").unlink()
    with pytest.raises(DabenchError, match=r"lacks harvest\.csv"):
        load(data)
    with pytest.raises(DabenchError, match=r"No such file[\s\S]*dabench fetch"):
        load(tmp_path / "nothing")
    with (data / QUESTIONS).open("a") as lines:
        lines.write('{"id": 4, "question": "?", "constraints": "", "format": "@a[b]", "file_name": "../a"}')
    with pytest.raises(DabenchError, match="file_name"):
        load(data)


def test_files_are_fetched_once_and_checked(tmp_path: Path) -> None:
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
    fetched = target / TABLES / "a table.csv"
    assert fetched.read_bytes() == content
    fetched.write_bytes(b"cut off")
    assert fetch(target, expected, base) == 1, "a damaged file is fetched again"
    assert len([one for one in digests() if one.startswith(f"data/{TABLES}/")]) == 52


def test_answers_are_read_from_a_message_and_graded_within_the_tolerance() -> None:
    said = "So @mean[1.5], @mean[2.5e0] and\n@who[Ann, Bo] @list[[1, 2]] @no[a\nb] @empty[] @is[Yes]"
    read = {"mean": "2.5e0", "who": "Ann, Bo", "list": "[1, 2", "empty": "", "is": "Yes"}
    assert read_answers(said) == read
    labels = {"mean": "2.50", "other": "1", "who": "Ann,Bo", "is": "yes"}
    assert grade(said, labels) == {"mean": True, "other": False, "who": False, "is": False}
    graded = [{"a": True, "b": True}, {"a": True, "b": False, "c": False, "d": False}, {"a": False}]
    assert score(graded) == Scores(by_question=0.3333, proportional=0.4167, by_answer=0.4286)


@pytest.mark.skipif(not FETCHED, reason="the data set is fetched by `python -m benchmarks.dabench fetch`")
def test_grades_and_scores_are_those_of_upstreams_grader() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DATA)  # it imports its folder `utils`
        theirs = importlib.import_module("eval_closed_form")
    dataset = load(DATA)
    chance = random.Random(5)
    said: dict[int, str] = {}
    for question in dataset.questions:
        changes = ["{}", "{}", "{}0", " {}", "not {}", "{}e0", "[{}]"]
        answers = [
            f"@{name}[{chance.choice(changes).format(value)}]" for name, value in dataset.labels[question.id].items()
        ]
        said[question.id] = " ".join(answers[chance.random() < 0.1 :])
    lines = (DATA / LABELS).read_text(encoding="utf-8").splitlines()
    labels = [json.loads(line) for line in lines]
    results = theirs.evaluate_responses(labels, [{"id": number, "response": text} for number, text in said.items()])
    ours = {number: grade(text, dataset.labels[number]) for number, text in said.items() if text}
    assert {result["id"]: result["correctness"] for result in results} == ours
    assert 0 < sum(all(one.values()) for one in ours.values()) < len(ours)
    assert score(list(ours.values())) == Scores(
        theirs.evaluate_accuracy_by_question(results),
        theirs.evaluate_accuracy_proportional_by_sub_question_adjusted(results),
        theirs.evaluate_accuracy_by_sub_question(results),
    )


def test_every_answer_is_a_program_and_every_dispute_is_about_one() -> None:
    codes = read_code(ANSWERS)
    assert len(codes) == 257
    for number, code in codes.items():
        compile(code, f"question {number}", "exec")
        assert not ("labels" in code and "jsonl" in code), "it does not read its label"
    assert set(read_disputed()) <= set(codes)


def test_the_report_lists_what_differs_with_the_reason_and_counts_what_was_not_answered(data: Path) -> None:
    texts = {1: "", 2: "@best_field[South] @best_yield[7.4|0]"}
    dataset = load(data)
    outcomes = {number: Outcome(id=number, basis="", status="complete", text=text) for number, text in texts.items()}
    graded = [Graded(one, dataset.labels[one.id], outcomes.get(one.id)) for one in dataset.questions]
    report = Report(Settings(model=None, approve="all", timeout=900), graded, {2: "The label rounds."})
    said = as_markdown(report)
    assert said.startswith(f"# InfiAgent-DABench: {NO_MODEL}\n")
    assert "| 2 | partly right | best_yield | `7.40` | `7.4\\|0` | The label rounds. |" in said
    assert "not explained: 1." in said
    assert "Not asked yet: 3." in said
    assert "Cost" not in said, "no model was paid"
    read = as_json(report)
    assert read["scores"]["proportional"] < read["scores_as_upstream_counts"]["proportional"]
