"""What is shown of a text that is longer than what is shown while it comes."""

from typing import Any

import pytest

from agent_kernel.execution.output_reader import END_CHARACTERS, LIVE_CHARACTERS, OutputReader
from agent_kernel.protocol.views import OutputView

LINES = [f"line {number}\n" for number in range(100_000)]
LONG = "".join(LINES)


class Reading:
    """A reader, and what clients have of its streams since they were cleared."""

    def __init__(self) -> None:
        self.outputs: list[OutputView] = []
        self.reader = OutputReader(self._take)

    def _take(self, output: Any) -> None:
        assert isinstance(output, OutputView)
        self.outputs = [] if output.kind == "clear" else [*self.outputs, output]

    def prints(self, text: str) -> None:
        self.reader.read("stream", {"name": "stdout", "text": text})

    @property
    def text(self) -> str:
        return "".join(output.text for output in self.outputs if output.kind == "stream")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_very_long_text_is_shown_with_its_true_end_and_says_how_much_is_left_out(fails: bool) -> None:
    reading = Reading()
    for start in range(0, len(LINES), 1_000):
        reading.prints("".join(LINES[start : start + 1_000]))
    if fails:
        reading.reader.read("error", {"ename": "ValueError", "evalue": "bad", "traceback": ["ValueError: bad"]})
    await reading.reader.end("")
    left_out = len(LONG) - LIVE_CHARACTERS - END_CHARACTERS
    assert reading.text.startswith(LONG[:LIVE_CHARACTERS])
    assert reading.text.endswith(f"[{left_out:,} characters left out here.]\n{LONG[-END_CHARACTERS:]}")
    assert [output.kind for output in reading.outputs if output.kind != "stream"] == (["error"] if fails else [])
    assert reading.outputs[-1].kind == ("error" if fails else "stream")


async def test_what_little_is_left_of_a_long_text_comes_whole() -> None:
    reading = Reading()
    reading.prints("x" * LIVE_CHARACTERS + "the end")
    await reading.reader.end("")
    assert reading.text.endswith("]\nthe end")
    assert "left out" not in reading.text


async def test_a_text_that_is_drawn_again_and_again_ends_as_it_was_last() -> None:
    reading = Reading()
    for number in range(4):
        reading.reader.read("clear_output", {"wait": True})
        reading.prints("x" * 500_000 + f"pass {number}\n")
    await reading.reader.end("")
    assert reading.text.endswith("xxxpass 3\n")


async def test_a_text_that_fits_is_shown_once() -> None:
    reading = Reading()
    reading.prints("short\n")
    reading.reader.read("error", {"ename": "ValueError", "evalue": "bad", "traceback": ["ValueError: bad"]})
    await reading.reader.end("")
    assert reading.text == "short\n"
