"""`benchmarks/dabench`: loading, grading, reporting, and whole runs in real kernels on a small data set of our own."""

import asyncio
import hashlib
import importlib
import json
import random
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from filelock import FileLock

from agent_kernel.notebook.batch.job import CellResult, NotebookResult
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.testing.wire.reply import Reply
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
    is_right,
    read_answers,
    score,
)
from benchmarks.dabench.run import LOCK, Outcome, Settings
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


# Whole runs


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
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert "Use the column tonnes" in asked
    assert "18.34" not in asked
    report = read_report(folder)
    assert report["answered_by"] == "openai/fake"
    assert report["scores"]["by_question"] == 0.0, "the grading rounds nothing"
    totals = report["totals"]
    assert (totals["calls"], totals["denied"], totals["cost"]) == (1, 1, None)
    assert totals["output_tokens"] >= 10
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    assert markdown.startswith("# InfiAgent-DABench: openai/fake\n")
    assert "| openai/fake | of those asked | as upstream counts |" in markdown
    assert "1, 1 denied" in markdown
    assert "| Cost | no price is known |" in markdown

    assert main(["run", "--model", "openai/other", *options]) == 2


def test_what_can_not_be_run_is_said_and_nothing_is_asked(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--model", "openai/fake"])
    assert ended.value.code == 2
    assert "--approve all" in capsys.readouterr().err, "first it is said what the model's code may do"
    command = ["run", "--model", "two", "--approve", "all", "--data", str(data), "--output", str(tmp_path)]
    with FileLock(tmp_path / LOCK):
        assert main(command) == 2
    assert "Another run writes to" in capsys.readouterr().err
    (tmp_path / "settings.json").write_text(Settings(model="one", approve="all", timeout=900).model_dump_json())
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "model was 'one'" in said
    assert "--output" in said


def test_a_notebook_that_never_came_to_a_run_is_told() -> None:
    cells = (CellResult(1, "failed", error="ModuleNotFoundError: agent_kernel"), CellResult(2, "not_run"))
    outcome = Outcome.of(7, "basis", NotebookResult(notebook="a.ipynb", status="failed", cells=cells, seconds=1.5))
    assert (outcome.id, outcome.status, outcome.notebook_seconds) == (7, "no run", 1.5)
    assert "ModuleNotFoundError" in outcome.error


# Loading


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


# Fetching


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A checkout like upstream's."""
    folder = tmp_path / "upstream"
    table = folder / "examples" / "DA-Agent" / "data" / TABLES / "a table.csv"
    table.parent.mkdir(parents=True)
    table.write_bytes(CONTENT)
    return folder


def test_files_are_fetched_once_and_checked(upstream: Path, tmp_path: Path) -> None:
    name = f"data/{TABLES}/a table.csv"
    expected = {name: hashlib.sha256(CONTENT).hexdigest()}
    base, target = upstream.as_uri(), tmp_path / "target"
    with pytest.raises(DabenchError, match=COMMIT[:10]):
        fetch(target, {name: "0" * 64}, base)
    assert not target.exists()
    assert [fetch(target, expected, base), fetch(target, expected, base)] == [1, 0]
    assert (target / TABLES / "a table.csv").read_bytes() == CONTENT
    (target / TABLES / "a table.csv").write_bytes(b"cut off")
    assert fetch(target, expected, base) == 1, "a damaged file is fetched again"
    with pytest.raises(DabenchError, match="--from DIR"):
        fetch(tmp_path / "other", expected, tmp_path.as_uri())


async def test_files_are_fetched_from_a_site(tmp_path: Path) -> None:
    name = f"data/{TABLES}/a.csv"
    async with FakeOpenAI(pages={f"/examples/DA-Agent/{name}": Reply(CONTENT)}) as server:
        base = server.url.removesuffix("/v1")
        assert await asyncio.to_thread(fetch, tmp_path, {name: hashlib.sha256(CONTENT).hexdigest()}, base) == 1


def test_the_list_of_digests_has_the_data_set_and_its_grader() -> None:
    names = digests()
    assert {"eval_closed_form.py", f"data/{QUESTIONS}", f"data/{LABELS}"} < set(names)
    assert len({name for name in names if name.startswith(f"data/{TABLES}/")}) == 52


# Grading


@pytest.mark.parametrize(
    ("answer", "label", "right"),
    [
        ("34.65", "34.65", True),
        ("3.465e1", "34.65", True),
        ("34.66", "34.65", False),
        ("Yes", "yes", False),
        ("NaN", "nan", False),
        (None, "1", False),
        ("1, 2", "1,2", False),
    ],
)
def test_an_answer_is_right_as_text_or_within_the_tolerance(answer: str | None, label: str, right: bool) -> None:
    assert is_right(answer, label) is right


def test_answers_are_read_from_a_message() -> None:
    said = "So @mean[1.5], @mean[2.5] and\n@who[Ann, Bo] @list[[1, 2]] @no[a\nb] @empty[]"
    assert read_answers(said) == {"mean": "2.5", "who": "Ann, Bo", "list": "[1, 2", "empty": ""}
    assert grade(said, {"mean": "2.50", "other": "1"}) == {"mean": True, "other": False}


def test_scores() -> None:
    graded = [{"a": True, "b": True}, {"a": True, "b": False, "c": False, "d": False}, {"a": False}]
    assert score(graded) == Scores(by_question=0.3333, proportional=0.4167, by_answer=0.4286)
    assert score([]) == Scores(0.0, 0.0, 0.0)


def graders() -> ModuleType:
    """Upstream's own grader, as it was fetched; it imports its folder `utils`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DATA)
        return importlib.import_module("eval_closed_form")


@pytest.mark.skipif(not FETCHED, reason="the data set is fetched by `python -m benchmarks.dabench fetch`")
def test_grades_and_scores_are_those_of_upstreams_grader() -> None:
    theirs = graders()
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


# Answers as code


def test_answers_are_cells_that_begin_with_what_they_have_in_common(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("# %% 1\nalone\n# %% common\nshared\n# %% 2\nfirst\n\nsecond\n")
    assert read_code(tmp_path) == {1: "alone\n", 2: "shared\n\nfirst\n\nsecond\n"}
    for title, said in (("2", "question 2 has an answer already"), ("notes", "titled 'notes'")):
        (tmp_path / "two.py").write_text(f"# %% {title}\nagain\n")
        with pytest.raises(DabenchError, match=said):
            read_code(tmp_path)


def test_every_answer_is_a_program_and_every_dispute_is_about_one() -> None:
    codes = read_code(ANSWERS)
    assert len(codes) == 257
    for number, code in codes.items():
        compile(code, f"question {number}", "exec")
        assert not ("labels" in code and "jsonl" in code), "it does not read its label"
    assert set(read_disputed()) <= set(codes)


# The report


def make_report(data: Path, texts: dict[int, str], **fields: Any) -> Report:
    dataset = load(data)
    outcomes = {number: Outcome(id=number, basis="", status="complete", text=text) for number, text in texts.items()}
    graded = [Graded(one, dataset.labels[one.id], outcomes.get(one.id)) for one in dataset.questions]
    settings = Settings(model=fields.pop("model", None), approve="all", timeout=900)
    return Report(settings, graded, fields.pop("disputed", {}))


def test_what_differs_from_its_label_is_listed_with_the_reason(data: Path) -> None:
    texts = {1: "@mean_tonnes[18.34]", 2: "@best_field[South] @best_yield[7.4|0]"}
    report = make_report(data, texts, disputed={2: "The label rounds."})
    said = as_markdown(report)
    assert said.startswith(f"# InfiAgent-DABench: {NO_MODEL}\n")
    assert "They say nothing about how well an agent works." in said
    assert "| 2 | partly right | best_yield | `7.40` | `7.4\\|0` | The label rounds. |" in said
    assert "not explained" not in said
    assert "Cost" not in said, "no model was paid"


def test_questions_without_an_answer_are_wrong_here_and_left_out_as_upstream_counts(data: Path) -> None:
    texts = {1: "@mean_tonnes[18.34]", 2: ""}
    read = as_json(make_report(data, texts, model="openai/m"))
    assert (read["scores"]["by_question"], read["scores_as_upstream_counts"]["by_question"]) == (0.5, 1.0)
    assert read["answered_by"] == "openai/m"
    said = as_markdown(make_report(data, texts))
    assert "not explained: 2." in said
    assert "Not asked yet: 3." in said
    assert "| 2 | no answer | best_yield | `7.40` | none |" in said
