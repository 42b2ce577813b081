"""What the model is told of a long output, and where the whole of it is."""

import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_kernel.tools import truncation
from agent_kernel.tools.truncation import TextLimits, shorten, spill, truncate


def test_a_long_text_keeps_a_fifth_from_its_start_and_the_rest_from_its_end() -> None:
    shown = truncate("\n".join(f"line {number}" for number in range(5_000)))
    lines = shown.text.split("\n")
    assert (shown.truncated, len(lines)) == (True, 1_000)
    assert [lines[0], lines[198], lines[-1]] == ["line 0", "line 198", "line 4999"]
    assert re.search(r"\[4,001 lines, .*left out here", lines[199])
    assert len(shown.text) <= 25_000


@pytest.mark.parametrize("text", ["x" * 100_000, ("x" * 5_000 + "\n") * 50, "x\n" * 100_000, "\n" * 60_000])
@pytest.mark.parametrize("limits", [TextLimits(), TextLimits(1_000, 10), TextLimits(500, 3)])
def test_the_separator_counts_towards_both_limits(text: str, limits: TextLimits) -> None:
    shown = truncate(text, limits, "/tmp/some/file.txt")
    assert shown.truncated
    assert len(shown.text) <= limits.characters
    assert shown.text.count("\n") < limits.lines


LONG = "start" + "x" * 10_494 + "end"
"""10,502 characters."""


WITHIN = re.compile(r"\.\.\. \[([\d,]+) characters? left out\] \.\.\.")
SEPARATOR = re.compile(
    r"\.\.\. \[(?:(?:([\d,]+) lines?, )?([\d,]+) characters? left out here|Long lines are cut)\.\] \.\.\.\n"
)


@pytest.mark.parametrize(
    "text",
    [
        *(LONG, f"{LONG}\ntwo", f"{LONG}\n" * 9, "ab\n" * 9_000, f"one\n{LONG}\nthree\n" * 30),
    ],
)
@pytest.mark.parametrize("limits", [TextLimits(10_000, 400), TextLimits(10_000, 12), TextLimits(900, 10)])
def test_each_cut_says_how_much_it_left_out(text: str, limits: TextLimits) -> None:
    shown = truncate(text, limits)
    assert shown.truncated
    assert len(shown.text) <= limits.characters
    assert shown.text.endswith(text[-15:])  # where errors and results are
    (separator,) = SEPARATOR.finditer(shown.text)
    lines, characters = (int((number or "0").replace(",", "")) for number in separator.groups())
    head, tail = shown.text[: separator.start()], shown.text[separator.end() :]
    within = sum(int(number.replace(",", "")) for number in WITHIN.findall(shown.text))
    kept = WITHIN.sub("", head) + WITHIN.sub("", tail)
    assert len(kept) + within + characters == len(text)
    assert head.count("\n") + lines + tail.count("\n") == text.count("\n")
    assert separator[1] != "0"


def test_a_text_of_which_only_a_long_line_is_cut_says_that() -> None:
    shown = truncate("start" + "x" * 100_000 + "end").text
    assert re.fullmatch(r"(?s)\.\.\. \[Long lines are cut\.\] \.\.\.\nstartx.*xend", shown)
    assert 15_000 < len(shown) <= 25_000


def test_the_whole_output_is_in_a_private_file_that_the_text_names(tmp_path: Path) -> None:
    text = "é\n" * 50_000
    shown = shorten("run_python", text, TextLimits(), tmp_path / "outputs")
    assert shown.truncated
    assert str(shown.output_file) in shown.text
    assert "read_file" in shown.text
    assert shown.output_file.read_text("utf-8") == text
    assert stat.S_IMODE(shown.output_file.stat().st_mode) == 0o600
    assert len(shown.text) <= 25_000


def test_the_file_has_a_largest_size_and_stays_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncation, "SPILL_BYTES", 1_001)
    path = spill("../odd name", "é" * 2_000, tmp_path)
    assert path.parent == tmp_path
    assert path.read_text("utf-8") == "é" * 500


def test_old_outputs_go_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    now = datetime.now(UTC).timestamp()
    paths = [spill("run_python", "x" * 100) for _ in range(4)]
    folder = paths[0].parent
    (folder / "notes.txt").write_text("mine")
    for age, path in enumerate(reversed(paths)):
        os.utime(path, (now - age * 60,) * 2)
    os.utime(folder / "notes.txt", (0, 0))
    monkeypatch.setattr(truncation, "KEPT_BYTES", truncation.SPILL_BYTES + 250)
    newest = spill("run_python", "y")
    assert sorted(folder.iterdir()) == sorted([*paths[2:], newest, folder / "notes.txt"])
    os.utime(newest, (now - truncation.KEPT_AGE.total_seconds() - 60,) * 2)
    spill("run_python", "z")
    assert not newest.exists()
