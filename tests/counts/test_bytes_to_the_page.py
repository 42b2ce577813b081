"""What a run costs a page in bytes: what is sent for each one, and what is loaded once."""

import json
import re
from pathlib import Path

import agent_kernel_widgets
from agent_kernel_widgets import AgentRun, opened

STATIC = Path(agent_kernel_widgets.__file__).parent / "static"
PARTS = STATIC / "parts"
HEAVY = re.compile(rb"cm-cursorLayer|ImportStatement")
"""In the editor and in the highlighter, and nowhere else."""


def static_imports(name: str) -> set[str]:
    """The part and all that a browser loads with it, before any of it runs."""
    found = re.findall(r"""(?:from|import)"\./(part-[0-9A-Z]{8}\.js)\"""", (PARTS / name).read_text(encoding="utf-8"))
    return {name}.union(*(static_imports(one) for one in found))


def first_part() -> str:
    (name,) = (path.name for path in PARTS.glob("cards-*.js"))
    return name


def test_a_run_sends_a_page_a_widget_of_less_than_2_kilobytes() -> None:
    state = opened.sent_state(conversation_id="c" * 40, run_id="r" * 40, prompt="Say it.", receives="usually")
    assert len(json.dumps(state)) < 1_580
    assert len(opened.built("loader.js")) < 1_220


def test_the_layout_is_sent_with_a_kernels_first_run_only() -> None:
    first, second = AgentRun(run_id="run_1"), AgentRun(run_id="run_2")
    assert second.layout is first.layout
    first.layout.close()  # as `Widget.close_all` does
    third = AgentRun(run_id="run_3")
    assert third.layout is not first.layout
    assert third.layout.comm is not None


def test_cards_are_there_with_the_first_part_and_the_editor_and_the_highlighter_come_later() -> None:
    first = static_imports(first_part())
    assert sum((PARTS / name).stat().st_size for name in first) < 275_000
    assert not [name for name in first if HEAVY.search((PARTS / name).read_bytes())]
    assert HEAVY.search((STATIC / "index.js").read_bytes())


def test_the_loader_names_the_first_part_that_was_built_with_it() -> None:
    assert first_part() in (STATIC / "loader.js").read_text(encoding="utf-8")
