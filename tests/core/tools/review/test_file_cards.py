"""What a card says of the file that a call would change, before anyone approves it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.errors import InvalidArguments, ToolFailed
from agent_kernel.tools.builtin.changes import planned_change, refuse_another_base
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS, MOST_CHANGED
from agent_kernel.tools.builtin.line_changes import compared
from agent_kernel.tools.builtin.places import locate
from agent_kernel.tools.registry import ToolRegistry
from agent_kernel.tools.review.file_changes import file_card
from agent_kernel.tools.review.shown_diff import SHOWN_LINES, SHOWN_WIDTH
from tests.cpu import bounded


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    return folder


def card(root: Path, name: str, **arguments: Any) -> Any:
    return file_card(root, name, arguments)


def test_a_card_is_of_the_file_that_the_call_was_judged_by(root: Path) -> None:
    (root / "a.txt").write_text("old\n")
    (root.parent / "b.txt").write_text("secret\n")
    place = locate("a.txt", root)
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to(root.parent / "b.txt")
    made = file_card(root, "write_file", {"path": "a.txt", "content": "new\n"}, place)
    assert (made.diff, made.base) == ("", "")
    assert "leads to" in made.facts[0]


def numbered(count: int, changed: int | None = None) -> str:
    return "".join(f"line {n}{' is new' if n == changed else ''}\n" for n in range(count))


def test_a_file_is_compared_with_what_it_holds_now(root: Path) -> None:
    (root / "a.md").write_bytes(b"# Orders\r\n\r\nold\r\nend\r\n")
    written = card(root, "write_file", path="a.md", content="# Orders\n\nnew\nend\n")
    assert written.diff == "--- a.md\n+++ a.md\n@@ -1,4 +1,4 @@\n # Orders\n \n-old\n+new\n end"
    assert written.facts == ["Replaces 22 B, 4 lines."]
    assert card(root, "edit_file", path="a.md", old_text="old", new_text="new").diff == written.diff
    assert (root / "a.md").read_bytes().count(b"old") == 1, "nothing is written for a card"


def test_replacing_a_large_file_shows_what_changes_in_it(root: Path) -> None:
    (root / "data.csv").write_text(numbered(20_000))
    one = card(root, "write_file", path="data.csv", content=numbered(20_000, changed=15_000))
    assert one.facts == ["Replaces 209 kB, 20,000 lines."]
    assert one.diff.split("\n")[2:] == [
        "@@ -14998,7 +14998,7 @@",
        *(f" line {n}" for n in range(14_997, 15_000)),
        "-line 15000",
        "+line 15000 is new",
        *(f" line {n}" for n in range(15_001, 15_004)),
    ]
    assert one.left_out == ""


def test_a_long_diff_shows_its_first_changes_and_says_how_many_more_there_are(root: Path) -> None:
    (root / "data.csv").write_text(numbered(2_000))
    content = "".join(f"line {n}{' is new' if n % 10 == 5 else ''}\n" for n in range(2_000))
    made = card(root, "write_file", path="data.csv", content=content)
    shown = made.diff.count("\n+line")
    assert 0 < shown < SHOWN_LINES
    assert made.left_out == f"And {200 - shown} more changes."
    assert len(made.diff) < SHOWN_LINES * SHOWN_WIDTH


def test_an_edit_everywhere_says_how_many_places_it_changes(root: Path) -> None:
    everywhere = {"path": "a.py", "old_text": "x =", "new_text": "y =", "replace_all": True}
    (root / "a.py").write_text("x = 1\n" + "\n" * 20 + "x = 2; x = 3\n")
    made = card(root, "edit_file", **everywhere)
    assert made.facts == ["Changes 3 places."]
    assert "-x = 2; x = 3\n+y = 2; y = 3" in made.diff


def test_an_edit_that_fails_as_the_file_is_now_says_so(root: Path) -> None:
    (root / "a.py").write_text("x = 1\nx = 2\n")
    fails = "As the file is now, this call fails: "
    twice, none = (card(root, "edit_file", path=path, old_text="x", new_text="y") for path in ("a.py", "none.py"))
    assert twice.facts[0].startswith(f"{fails}old_text occurs 2 times in 'a.py' (lines 1, 2)")
    assert none.facts[0].startswith(f"{fails}There is no file 'none.py'")
    assert (none.diff, none.base) == ("", "")


def test_a_link_and_a_path_outside_the_notebooks_folder_say_where_they_lead(root: Path) -> None:
    shared = root.parent / "shared"
    shared.mkdir()
    (shared / "notes.md").write_text("theirs\n")
    links = {"notes.md": "../shared/notes.md", "data": shared, "inner.md": "a.md"}
    for name, target in links.items():
        (root / name).symlink_to(target)
    follows, outside = "Follows a link:", "Outside this notebook's folder:"
    expected = {
        "notes.md": {follows: "notes.md is a link to ../shared/notes.md", outside: str(shared / "notes.md")},
        "data/new.csv": {follows: f"data is a link to {shared}", outside: str(shared / "new.csv")},
        "inner.md": {follows: "inner.md is a link to a.md"},
        "../a.md": {outside: str(root.parent / "a.md")},
        str(root.parent / "a.md"): {outside: str(root.parent / "a.md")},
        "deep/../a.md": {},
    }
    made = {path: card(root, "write_file", path=path, content="mine\n") for path in expected}
    assert {path: {one.title: one.detail for one in made[path].warnings} for path in made} == expected
    assert "-theirs\n+mine" in made["notes.md"].diff


@pytest.mark.parametrize(
    ("held", "facts"),
    [
        (b"\0\1" * 600, ["Replaces a binary file, 1.2 kB; it can't be compared."]),
        (
            b"caf\xe9\n",
            ["Replaces 5 B, 1 line.", "The file is not UTF-8 (it is read as Latin-1); it becomes UTF-8."],
        ),
        (b"same\n", ["Replaces 5 B, 1 line.", "The file holds this already; nothing would change."]),
    ],
)
def test_a_file_that_is_not_plain_text_is_said_to_be_what_it_is(root: Path, held: bytes, facts: list[str]) -> None:
    (root / "a.txt").write_bytes(held)
    assert card(root, "write_file", path="a.txt", content="same\n").facts == facts


def test_nobody_is_asked_about_a_change_of_fifty_megabytes(root: Path) -> None:
    (root / "a.txt").write_text("x" * 50_000)
    huge: dict[str, Any] = {"path": "a.txt", "old_text": "x", "new_text": "y" * 1_000, "replace_all": True}
    assert bounded(0.5, lambda: card(root, "edit_file", **huge)).refusal == (
        "This would change 50,050,000 characters of 'a.txt'. One call may change 5,242,880, because the user reads "
        "what changes. Change less at once, or use run_python."
    )
    with pytest.raises(ToolFailed, match="50,050,000"):
        planned_change(root, "edit_file", huge)
    registry = ToolRegistry(BUILTIN_TOOLS)
    with pytest.raises(InvalidArguments, match=r"content has 50,000,000 characters; 5,242,880 is the most\."):
        registry.validate("write_file", {"path": "a.txt", "content": "x" * 50_000_000})
    registry.validate("write_file", {"path": "a.txt", "content": "x" * MOST_CHANGED})


def test_the_model_hears_nothing_of_a_file_that_it_may_not_read(root: Path) -> None:
    """Whether a long change is refused says whether its text is in the file."""
    (root.parent / "secret").write_text("key")
    (root / ".env").write_text("key")
    for path in ("../secret", ".env"):
        made = card(root, "edit_file", path=path, old_text="key", new_text="y" * MOST_CHANGED)
        assert made.refusal == ""
        assert "As the file is now, this call fails: This would change" in made.facts[0]


WRITE = {"path": "a.md", "content": "new\n"}
EVERYWHERE: dict[str, Any] = {"path": "a.md", "old_text": "o", "new_text": "0", "replace_all": True}


@pytest.mark.parametrize(("name", "arguments"), [("write_file", WRITE), ("edit_file", EVERYWHERE)])
def test_a_file_that_was_changed_since_it_was_shown_is_not_written_over(
    root: Path, name: str, arguments: dict[str, Any]
) -> None:
    path = root / "a.md"
    path.write_text("old\n")
    shown = card(root, name, **arguments).base
    refuse_another_base(planned_change(root, name, arguments), shown, "a.md")
    path.write_text("old, and more\n")
    with pytest.raises(ToolFailed, match=r"'a.md' was changed after this call was shown to the user\."):
        refuse_another_base(planned_change(root, name, arguments), shown, "a.md")


HOSTILE = {
    "shuffled": ("".join(map(chr, range(0x4E00, 0x9E00))), "".join(map(chr, range(0x9DFF, 0x4DFF, -1)))),
    "the same two lines in other orders": ("ab" * 20_000, "ba" * 20_000),
    "a million lines": ("\n" * 10, "a" * 2_000_000),
}


@pytest.mark.parametrize(("before", "after"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_card_of_any_file_is_made_in_bounded_time_and_size(root: Path, before: str, after: str) -> None:
    (root / "a.txt").write_text("".join(f"{letter}\n" for letter in before))
    content = "".join(f"{letter}\n" for letter in after)
    made = bounded(3, lambda: card(root, "write_file", path="a.txt", content=content))
    assert len(made.diff) < 100_000
    assert made.facts


TEXTS = st.lists(st.sampled_from("abcdefgh"), max_size=60)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_the_changes_of_any_two_texts_make_one_of_the_other(
    start: list[str], old: list[str], new: list[str], end: list[str]
) -> None:
    before, after = [*start, *old, *end], [*start, *new, *end]
    made: list[str] = []
    for tag, first, last, new_first, new_last in compared(before, after):
        made += before[first:last] if tag == "equal" else after[new_first:new_last]
    assert made == after
