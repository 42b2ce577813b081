"""Reasoning between tags in an answer's text is reasoning, however it is cut. Tags that an answer is about are not."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.models.answer_reading import Deltas
from agent_kernel.models.base import ReasoningDelta, TextDelta
from agent_kernel.models.thoughts import TextReader


def read(text: str, cuts: list[int] | None = None) -> tuple[str, str]:
    """Reasoning and answer of a text that comes in pieces, as they are passed on."""
    deltas = Deltas()
    reader = TextReader(deltas)
    items = []
    for start, end in itertools.pairwise([0, *sorted(cuts or []), len(text)]):
        reader.add(text[start:end])
        items += deltas.take()
    reader.end()
    items += deltas.take()
    reasoning, answer = "", ""
    for item in items:
        match item:
            case ReasoningDelta():
                reasoning += item.content
            case TextDelta():
                answer += item.content
    assert (reasoning, answer) == (deltas.reasoning, deltas.content)
    return reasoning, answer


TAGGED = {
    "<think>Hm.</think>Yes.": ("Hm.", "Yes."),
    "\n<think>\nHm.\n</think>\n\nYes.": ("Hm.\n", "Yes."),
    "<think>\n\n</think>\n\nYes.": ("", "Yes."),
    "<think>Hm.</think><think>Aha.</think> Yes.": ("Hm.Aha.", "Yes."),
    "<think>Hm.": ("Hm.", ""),
    "<think>Hm.</thi": ("Hm.</thi", ""),
    "[THINK]Hm.[/THINK]Yes.": ("Hm.", "Yes."),
    "<think>Hm.</think>It ends with </think>.": ("Hm.", "It ends with </think>."),
}
PLAIN = (
    "",
    " \n ",
    "  Yes.",
    "<thi",
    "The tag </think> ends it.",
    "It is written <think>so</think>\nand no other way.",
    "```\n<think>\n</think>\n```",
    "Yes.<think>Hm.</think>",
)
each_tagged = pytest.mark.parametrize(("text", "told"), TAGGED.items(), ids=map(repr, TAGGED))


@each_tagged
@given(data=st.data())
def test_tags_split_over_pieces_are_tags(text: str, told: tuple[str, str], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    assert read(text, cuts) == told
    assert read(text, list(range(len(text)))) == told


@pytest.mark.parametrize("text", PLAIN, ids=repr)
@given(data=st.data())
def test_an_answer_without_reasoning_is_passed_on_as_it_is(text: str, data: st.DataObject) -> None:
    assert read(text, data.draw(st.lists(st.integers(0, len(text)), max_size=8))) == ("", text)
