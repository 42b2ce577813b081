"""The declared rules: what differs between two runs of the same notebook is replaced, and data is not."""

import tempfile

import pytest

from agent_kernel.models.recordings.normalise import Normaliser, own_pattern

TMP = tempfile.gettempdir()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<Figure at 0x7f35e422e0d0>", "<Figure at 0x7ffd00aa1130>"),
        ("done at 2026-11-23T00:40:58.123Z", "done at 2025-01-02 10:11:12+01:00"),
        (f"read {TMP}/tmpab12/x.csv", f"read {TMP}/pytest-of-me/pytest-3/x.csv"),
        ("/home/ann/data/a.csv", "/Users/bob/data/a.csv"),
        ("Cell In[3], line 1", "Cell In[12], line 1"),
        ("pandas 2.2.3 on Python 3.11", "pandas 3.0.0 on Python 3.13"),
        ("finished in 1.23 s", "finished in 45 ms"),
        ("100%|####| 80/80 [00:00<00:00, 15278.40it/s]", "100%|####| 80/80 [01:02:03<00:00,  1.20s/it]"),
        ("%%agent --record a.jsonl --wait\nSum", "%%agent --model replay:a.jsonl --on-change warn --wait\nSum"),
        (
            "The output is in /home/ann/.cache/agent-kernel/outputs/run_python-a11d2423c2bbe29d.txt, up to 50 MB of it",
            "The output is in /Users/bo b/Caches/run_python-0123456789abcdef.txt, up to 50 MB of it",
        ),
    ],
)
def test_what_differs_between_two_runs_is_replaced(one: str, other: str) -> None:
    assert Normaliser().text(one) == Normaliser().text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "9"),
        ("2024-01-01    3.5", "2024-01-02    3.5"),
        ("speed 12 s", "speed 13 s"),
        (" 50%|##  | 40/80 [00:00<00:00, 9.1it/s]", "100%|####| 80/80 [00:00<00:00, 9.1it/s]"),
        ("%%agent --policy plan\nSum", "%%agent --policy deny\nSum"),
    ],
)
def test_data_stays_as_it_is(one: str, other: str) -> None:
    assert Normaliser().text(one) != Normaliser().text(other)


def test_the_notebooks_folder_is_left_out() -> None:
    one = Normaliser().text("read /srv/work/data/a.csv and /srv/workshop/b", "/srv/work")
    assert one == "read ./data/a.csv and /srv/workshop/b"


def test_a_users_pattern_stands_for_what_it_matches() -> None:
    normaliser = Normaliser(["order #", "session-*", r"C:\*"])
    assert normaliser.text(r"order 12.5 of session-a7f in C:\data") == r"order # of session-* in C:\*"


@pytest.mark.timeout(60)
def test_no_pattern_and_no_text_takes_long() -> None:
    """A recording may come from elsewhere, and results from anywhere."""
    pattern = own_pattern("#*" * 50 + "!")
    assert pattern.search("1a" * 10_000) is None
    for piece in ("1.", "/a", "%%agent ", "0x", "  ", "in 1", "[0:00, 1"):
        Normaliser(["*" * 200]).text(piece * 20_000)
